"""Thread search in SQLite: its cost, its access paths, and files from older versions."""

import asyncio
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import apsw
import pytest

from threadwire.core.access_filter import AccessFilter, parse_access_filter
from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.records import Thread, ThreadQuery
from threadwire.storage.sqlite import open_sqlite_storage, thread_search
from threadwire.storage.sqlite.access_terms import labelled
from threadwire.storage.sqlite.id_keys import key_of
from threadwire.storage.sqlite.schema import migrations, open_reader

pytestmark = pytest.mark.anyio

NOW = 1_700_000_000_000
STATUSES = ("idle", "idle", "idle", "interrupted")


def make_thread(at: int) -> Thread:
    return Thread(
        thread_id=ThreadId(uuid7()),
        created_at=NOW + at,
        updated_at=NOW + at * 7919 % 10_007,
        state_updated_at=NOW + at * 104_729 % 10_007,
        status=STATUSES[at % len(STATUSES)],  # type: ignore[arg-type]
        metadata={"graph_id": "agent", "half": at % 2, "user": f"u{at // 5}", "team": ["all", f"t{at // 5}"]},
        values={"at": at},
    )


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_search, "MAX_SORTED", 20)


QUERIES: list[dict[str, Any]] = [
    {},
    {"metadata": {"graph_id": "agent"}},
    {"metadata": {"graph_id": "agent", "half": 1}},
    {"metadata": {"half": 1}, "status": "idle"},
    {"metadata": {"user": "u3"}},
    {"metadata": {"user": "u3", "graph_id": "agent"}},
    {"metadata": {"user": "nobody"}},
    {"status": "interrupted"},
    {"status": "interrupted", "metadata": {"graph_id": "agent"}},
    {"status": "idle"},
    {"status": "busy"},
]
ACCESS: list[dict[str, Any]] = [
    {},
    {"user": "u3"},
    {"half": 1},
    {"team": {"$contains": "t3"}},
    {"team": {"$contains": ["all", "t3"]}},
    {"half": 1, "team": {"$contains": "all"}},
    {"$or": [{"user": "u3"}, {"team": {"$contains": "t4"}}]},
    {"$or": [{"user": "u3"}, {"half": 1}]},
]
SORTS = ("created_at", "updated_at", "state_updated_at", "thread_id", "status")


@pytest.mark.usefixtures("few")
async def test_cost_of_a_page_does_not_grow_with_the_number_of_threads(tmp_path: Path) -> None:
    """Counts steps of SQLite's virtual machine, so that the result does not depend on timing."""
    async with open_sqlite_storage(tmp_path) as storage:
        steps: list[dict[str, int]] = []
        for total in (200, 2000):
            have = await storage.threads.count(ThreadQuery())
            await asyncio.gather(*(storage.threads.create(make_thread(at)) for at in range(have, total)))
            steps.append(_steps_of_each(tmp_path))
    few, many = steps
    assert few.keys() == many.keys()
    grown = {query: (few[query], many[query]) for query in few if many[query] > 2 * few[query] + 200}
    assert not grown


def _steps_of_each(directory: Path) -> dict[str, int]:
    db = open_reader(directory / "threadwire.db")
    found: dict[str, int] = {}
    for fields in QUERIES:
        for sort_by in SORTS:
            for descending in (False, True):
                query = ThreadQuery(**fields, sort_by=sort_by, descending=descending)  # type: ignore[arg-type]
                for raw in ACCESS:
                    access = parse_access_filter(raw)
                    name = f"{fields} of {raw} by {sort_by}, {descending}"
                    found[name] = _steps(db, thread_search.page, query, access)
        for raw in ({}, {"user": "u3"}, {"team": {"$contains": "t3"}}):
            access = parse_access_filter(raw)
            found[f"the number of {fields} of {raw}"] = _steps(db, thread_search.count, ThreadQuery(**fields), access)
    db.close()
    return found


def _steps(
    db: apsw.Connection,
    search: Callable[[ThreadQuery, apsw.Connection, AccessFilter], object],
    query: ThreadQuery,
    access: AccessFilter,
) -> int:
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 10
        return False

    db.set_progress_handler(count, 10)
    search(query, db, access)
    db.set_progress_handler(None)
    return steps


@pytest.mark.usefixtures("few")
async def test_all_access_paths_return_the_same_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        threads = [make_thread(at) for at in range(100)]
        await asyncio.gather(*map(storage.threads.create, threads))
        for fields, raw, sort_by in product(QUERIES, ACCESS, SORTS):
            query = ThreadQuery(**fields, sort_by=sort_by, limit=7, offset=5)  # type: ignore[arg-type]
            access = parse_access_filter(raw)
            found = []
            for few in (0, 20, 10_000):
                monkeypatch.setattr(thread_search, "MAX_SORTED", few)
                page = await storage.threads.search(query, access=access)
                found.append([thread.thread_id for thread in page])
            assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("raw", [raw for raw in ACCESS if raw], ids=str)
@pytest.mark.parametrize(("table", "key"), [("assistants", "assistant"), ("crons", "cron")])
async def test_an_index_serves_access_filters_of_assistants_and_crons(
    tmp_path: Path, table: str, key: str, raw: dict[str, Any]
) -> None:
    async with open_sqlite_storage(tmp_path):
        pass
    db = open_reader(tmp_path / "threadwire.db")
    term, bindings = labelled(f"{key}_labels", key, parse_access_filter(raw))
    plan = [detail for *_, detail in db.execute(f"EXPLAIN QUERY PLAN SELECT * FROM {table} WHERE {term}", bindings)]
    db.close()
    assert f"SEARCH {table} USING PRIMARY KEY ({key}=?)" in plan
    assert f"SEARCH {key}_labels USING PRIMARY KEY (label=?)" in plan


async def test_threads_in_a_migrated_file_are_found(tmp_path: Path) -> None:
    threads = [make_thread(at) for at in range(10)]
    db = apsw.Connection(str(tmp_path / "threadwire.db"))
    db.execute("PRAGMA journal_mode = WAL")
    with db:
        db.execute(migrations()[0])
        db.execute("PRAGMA user_version = 1")
        db.executemany(
            "INSERT INTO threads VALUES (?, ?, ?, 'idle', 0, NULL, ?, '{}', NULL, NULL)",
            [
                (key_of(each.thread_id), each.created_at, each.updated_at, '{"user":"ü","n":1.0,"team":["a"]}')
                for each in threads
            ],
        )
    db.close()
    async with open_sqlite_storage(tmp_path) as storage:
        for metadata in ({"user": "ü"}, {"n": 1}, {"user": "ü", "n": 1}):
            found = await storage.threads.search(ThreadQuery(metadata=metadata))
            assert [each.thread_id for each in found] == [each.thread_id for each in reversed(threads)]
        access = parse_access_filter({"team": {"$contains": "a"}})
        assert len(await storage.threads.search(ThreadQuery(), access=access)) == 10
        assert await storage.threads.due(2 * NOW, 10) == []
        await storage.threads.delete(threads[0].thread_id)
        assert await storage.threads.count(ThreadQuery(metadata={"user": "ü"})) == 9
