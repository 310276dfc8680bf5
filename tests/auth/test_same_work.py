"""A foreign row cannot be distinguished from an unknown one by timing: both cause the same queries.

The tests compare queries, because durations vary too much to prove anything.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from auth_clients import PROJECT
from auth_operations import EVERYTHING
from auth_rows import Rows, rows_of, send, unknown_rows
from starlette.testclient import TestClient

from threadwire.server.mountable_app import create_app

OPERATIONS = [
    "GET /threads/{thread_id}",
    "PATCH /threads/{thread_id}",
    "DELETE /threads/{thread_id}",
    "GET /threads/{thread_id}/state",
    "POST /threads/{thread_id}/history",
    "POST /threads/{thread_id}/copy",
    "GET /threads/{thread_id}/runs",
    "POST /threads/{thread_id}/runs",
    "GET /threads/{thread_id}/runs/{run_id}",
    "POST /threads/{thread_id}/runs/{run_id}/cancel",
    "GET /runs/{run_id}",
    "GET /assistants/{assistant_id}",
    "DELETE /assistants/{assistant_id}",
    "GET /runs/crons/{cron_id}",
    "DELETE /runs/crons/{cron_id}",
    "GET /store/items",
    "GET /threads/{thread_id}/timeline",
    "PUT /threads/{thread_id}/timeline/interrupts/{interrupt_id}",
    "POST /ag-ui/{agent}/connect",
    "POST /ag-ui/{agent}/stop/{thread_id}",
    "GET /copilotkit/threads/{thread_id}/messages",
    "PATCH /copilotkit/threads/{thread_id}",
    "GET /chatkit/{agent}/attachments/{attachment_id}/preview",
    "chatkit threads.get_by_id",
    "chatkit threads.add_user_message",
    "chatkit items.list",
    "command state.get",
    "command input.respond",
]


ATTEMPTS = 5
"""The server's own queries, such as polling for webhooks, may get between those of a request."""


class Queries:
    """The statements that the database executes."""

    def __init__(self) -> None:
        self.executed: list[str] = []

    def watch(self, connection: apsw.Connection) -> None:
        connection.exec_trace = self._note

    def _note(self, cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        self.executed.append(statement)
        return True


@pytest.fixture(scope="module")
def queries() -> Iterator[Queries]:
    queries = Queries()
    apsw.connection_hooks.append(queries.watch)
    yield queries
    apsw.connection_hooks.remove(queries.watch)


@pytest.fixture(scope="module")
def own_modules() -> Iterator[None]:
    """Other tests in this process have projects with modules of the same names."""
    path, before = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(PROJECT.parent) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture(scope="module")
def bob(queries: Queries, own_modules: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    data: Path = tmp_path_factory.mktemp("same-work") / "data"
    app = create_app(PROJECT, data=data)
    with TestClient(app, base_url="http://127.0.0.1", headers={"authorization": "Bearer bob"}) as client:
        yield client


@pytest.fixture(scope="module")
def hers(bob: TestClient) -> Rows:
    ada = TestClient(bob.app, base_url="http://127.0.0.1", headers={"authorization": "Bearer ada"})
    ada.portal = bob.portal
    return rows_of(ada)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_foreign_row_takes_the_same_queries_as_an_unknown_one(
    bob: TestClient, hers: Rows, queries: Queries, name: str
) -> None:
    def executed(rows: Rows) -> list[str]:
        queries.executed.clear()
        send(bob, EVERYTHING[name], rows)
        return list(queries.executed)

    executed(unknown_rows())  # the first call may fill caches
    foreign, unknown = executed(hers), executed(unknown_rows())
    for _ in range(ATTEMPTS):
        if foreign == unknown:
            break
        foreign, unknown = executed(hers), executed(unknown_rows())
    assert foreign == unknown


def test_a_difference_would_be_found(bob: TestClient, hers: Rows, queries: Queries) -> None:
    queries.executed.clear()
    send(bob, EVERYTHING["GET /threads/{thread_id}"], hers)
    assert [each for each in queries.executed if "FROM threads" in each]
