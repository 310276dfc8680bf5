"""Every operation, called by the owner, by another user, without a credential, and with credentials that have ended.

For a row of the owner, another user receives the same as for a row that does not exist.
"""

import json
import re
from collections.abc import Iterator
from typing import get_args

import httpx
import pytest
from auth_clients import client_of, store_key
from auth_operations import CHATKIT, COMMANDS, COPILOTKIT, EVERYTHING, RULES, SECRET
from auth_rows import Rows, rows_of, send, unknown_rows

from threadwire.protocols.chatkit import decode as chatkit_decode
from threadwire.protocols.copilotkit.decode import METHODS
from threadwire.protocols.langgraph.thread_wire.commands import HANDLERS
from threadwire.testing.server import RunningServer

PRIVATE = {name: call for name, call in EVERYTHING.items() if call.kind != "public"}


@pytest.fixture(scope="module")
def hers(ada: httpx.Client) -> Rows:
    return rows_of(ada)


_VARIES = re.compile(
    r'[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32,64}|\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)?|"timestamp":\d+|atc_\w+'
)


def normalised(text: str) -> str:
    return _VARIES.sub("…", text)


def test_every_operation_has_a_rule(server: RunningServer) -> None:
    described = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    assert routes == RULES.keys()
    assert CHATKIT.keys() == _chatkit_operations()
    assert COPILOTKIT.keys() == set(METHODS)
    assert COMMANDS.keys() == set(HANDLERS)


def _chatkit_operations() -> set[str]:
    found = [
        each
        for each in vars(chatkit_decode).values()
        if isinstance(each, type) and "type" in getattr(each, "model_fields", {})
    ]
    names = {name for each in found for name in get_args(each.model_fields["type"].annotation)}
    return {name for name in names if isinstance(name, str) and "." in name}


@pytest.mark.parametrize("name", [name for name, call in EVERYTHING.items() if call.kind == "public"])
def test_public_operations_need_no_credential(server: RunningServer, name: str) -> None:
    with client_of(server, {}) as nobody:
        assert send(nobody, EVERYTHING[name], unknown_rows())[0] == 200


@pytest.fixture(scope="module")
def without_access(server: RunningServer) -> Iterator[dict[str, httpx.Client]]:
    expired, revoked = store_key(server.data, 1, expires_at=1000), store_key(server.data, 2, revoked=True)
    headers: dict[str, dict[str, str]] = {
        "anonymous": {},
        "expired key": {"x-api-key": expired},
        "revoked key": {"authorization": f"Bearer {revoked}"},
        "expired user": {"authorization": "Bearer ada.1000"},
        "wrong key": {"x-api-key": expired[:-4] + "ffff"},
    }
    clients = {name: client_of(server, each) for name, each in headers.items()}
    yield clients
    for client in clients.values():
        client.close()


@pytest.mark.parametrize("name", PRIVATE)
def test_without_a_valid_credential_every_operation_is_rejected(
    without_access: dict[str, httpx.Client], hers: Rows, name: str
) -> None:
    for caller, client in without_access.items():
        status, body = send(client, PRIVATE[name], hers)
        assert (status, list(json.loads(body))) == (401, ["detail"]), caller
        assert send(client, PRIVATE[name], unknown_rows()) == (status, body), caller


@pytest.mark.parametrize("name", [name for name, call in PRIVATE.items() if call.kind in ("row", "created", "taken")])
def test_a_foreign_row_looks_like_an_unknown_one(bob: httpx.Client, hers: Rows, name: str) -> None:
    call = PRIVATE[name]
    status, body = send(bob, call, hers)
    assert SECRET not in body
    if call.kind == "row":
        unknown = send(bob, call, unknown_rows())
        assert (status, normalised(body)) == (unknown[0], normalised(unknown[1]))
    elif call.kind == "taken":  # ids are unique over all users
        assert status == 409
    else:  # an unknown thread would be created; a foreign one is not
        assert "not found" in body.lower()


@pytest.mark.parametrize("name", [name for name, call in PRIVATE.items() if call.kind in ("list", "free")])
def test_lists_and_counts_contain_no_foreign_rows(bob: httpx.Client, hers: Rows, name: str) -> None:
    call = PRIVATE[name]
    status, body = send(bob, call, hers)
    assert status not in (401, 403, 500), body
    assert SECRET not in body
    sent = hers.fill(call.path + json.dumps(call.body))
    assert not [own for own in vars(hers).values() if own in body and own not in sent]
    if "count" in name:
        assert json.loads(body) == 0


DESTRUCTIVE = ("DELETE", "threads.delete", "attachments.delete", "archive", "prune", "clear", "cancel", "agent/stop")


HARMLESS = [name for name in PRIVATE if not any(each in name for each in DESTRUCTIVE)]


@pytest.mark.parametrize("name", [name for name in HARMLESS if PRIVATE[name].kind in ("row", "list")])
def test_the_owner_has_access(ada: httpx.Client, hers: Rows, name: str) -> None:
    call = PRIVATE[name]
    status, body = send(ada, call, hers)
    assert status not in (401, 403), body


def test_other_users_have_changed_no_row_of_the_owner(ada: httpx.Client, hers: Rows) -> None:
    assert ada.get(f"/threads/{hers.thread}").status_code == 200
    assert ada.get(f"/runs/{hers.run}").status_code == 200
    assert ada.get(f"/assistants/{hers.assistant}").json()["name"] in (SECRET, "mine")
    assert ada.get(f"/runs/crons/{hers.cron}").status_code == 200
    assert ada.get("/store/items", params={"namespace": "notes", "key": "note"}).json()["value"] == {"text": SECRET}


def test_the_log_names_no_secret(server: RunningServer, hers: Rows) -> None:
    assert SECRET not in server.log()
