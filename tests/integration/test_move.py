"""Moving a data directory into PostgreSQL: everything arrives, byte for byte, or nothing does."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest
from rich.console import Console
from stream_client import new_thread, post, replay

from services.fixtures import postgres_server as postgres_server
from services.postgres_server import PostgresServer
from threadwire.cli.move_command import run_move
from threadwire.core.api_keys import ApiKey
from threadwire.errors import Conflict, DataDirectoryLocked, StorageError, ThreadwireError
from threadwire.storage.postgres import open_postgres_keys
from threadwire.storage.sqlite import open_sqlite_keys
from threadwire.testing.server import RunningServer, running_server

pytestmark = pytest.mark.timeout(300)

PROJECT = Path(__file__).parent / "project" / "langgraph.json"
ODD_TEXT = "NUL \0 and \x01, é, 🎈"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with something in every table."""
    data = tmp_path_factory.mktemp("move") / "data"
    with running_server(PROJECT, data) as server:
        _fill(server)
        server.kill()  # one run is in progress
    db = apsw.Connection(str(data / "threadwire.db"))
    # Rows that otherwise need a webhook, an embedding and a long thread.
    db.execute("INSERT INTO deliveries (run, vals, due_at, tries) VALUES ('{}', NULL, 9999999999999, 3)")
    db.execute("INSERT INTO item_vectors SELECT position, 0, x'0000803f00000000' FROM items")
    db.execute("INSERT INTO fold_snapshots SELECT thread, 'other', 1, 0, x'00ff' FROM threads")
    db.close()
    return data


def _fill(server: RunningServer) -> None:
    values = {"messages": [{"role": "user", "content": ODD_TEXT}], "count": 2, "words": 5}
    race = {"assistant_id": "marathon", "input": values}
    for _ in range(2):
        thread_id = new_thread(server)
        post(server, f"/threads/{thread_id}/runs/wait", race)
        httpx.get(f"{server.url}/threads/{thread_id}/timeline", timeout=30).raise_for_status()
    gone = new_thread(server)
    httpx.delete(f"{server.url}/threads/{gone}").raise_for_status()
    post(server, "/runs/wait", race)
    assistant = post(server, "/assistants", {"graph_id": "marathon", "name": ODD_TEXT, "metadata": {"a": ODD_TEXT}})
    httpx.patch(
        f"{server.url}/assistants/{assistant['assistant_id']}", json={"description": ODD_TEXT}
    ).raise_for_status()
    post(server, "/runs/crons", {"assistant_id": "marathon", "schedule": "0 0 1 1 *", "input": values})
    httpx.put(
        f"{server.url}/store/items", json={"namespace": ["a", "b"], "key": ODD_TEXT, "value": {"text": ODD_TEXT}}
    ).raise_for_status()
    post(server, f"/threads/{new_thread(server)}/runs", {**race, "input": {**values, "count": 10_000, "delay": 0.01}})
    post(server, f"/threads/{new_thread(server)}/runs", {**race, "after_seconds": 100_000})


@pytest.fixture
def copied(directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(directory, tmp_path / "data"))


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    dsn = asyncio.run(postgres_server.create_database())
    yield dsn
    asyncio.run(postgres_server.drop_database(dsn))


def moved(data: Path, dsn: str) -> list[str]:
    console = Console(record=True, width=200)
    run_move(data, dsn, console)
    return console.export_text().splitlines()


def test_everything_is_moved_and_served(copied: Path, database: str, postgres_server: PostgresServer) -> None:
    with running_server(PROJECT, copied) as server:
        before = contents(server)
        server.terminate()
    create = ["keys", "create", "--user", "ann", "--config", str(PROJECT), "--data", str(copied)]
    subprocess.run([sys.executable, "-m", "threadwire", *create], check=True, capture_output=True)
    lines = moved(copied, database)
    counts = {line.split()[0]: int(line.split()[1]) for line in lines if line.startswith("  ")}
    assert counts == row_counts(copied) | {"keys": 1}
    assert all(counts.values())
    assert lines[-1].startswith("Moved. Every row was read back")
    postgres_server.execute("DELETE FROM keys", database=database.rpartition("/")[2])  # or requests would need the key
    with running_server(PROJECT, None, env={"THREADWIRE_STORAGE": database}) as server:
        assert contents(server) == before


def row_counts(data: Path) -> dict[str, int]:
    from threadwire.storage.move.tables import TABLES

    db = apsw.Connection(str(data / "threadwire.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {table.name: db.execute(f"SELECT count(*) FROM {table.name}").get for table in TABLES}
    finally:
        db.close()


def contents(server: RunningServer) -> Any:
    """What a client can read, once no run is active."""
    threads = post(server, "/threads/search", {"limit": 100, "sort_by": "created_at"})
    idle = [thread for thread in threads if thread["status"] != "busy"]
    paths = [f"/threads/{thread['thread_id']}" for thread in idle]
    return {
        "threads": idle,
        "assistants": post(server, "/assistants/search", {"limit": 100}),
        "crons": post(server, "/runs/crons/search", {}),
        "items": post(server, "/store/items/search", {"namespace_prefix": []}),
        "histories": [httpx.get(f"{server.url}{path}/history?limit=100", timeout=30).json() for path in paths],
        "timelines": [httpx.get(f"{server.url}{path}/timeline", timeout=30).json() for path in paths],
        "streams": [
            replay(server, f"{path}/runs/{_run_of(server, path)}/stream") for path in paths if _run_of(server, path)
        ],
    }


def _run_of(server: RunningServer, path: str) -> str | None:
    runs = httpx.get(f"{server.url}{path}/runs", timeout=30).json()
    return runs[0]["run_id"] if runs and runs[0]["status"] == "success" else None


def test_the_api_keys_are_moved(copied: Path, database: str) -> None:
    keys = [ApiKey("0123456789ab", b"digest", "ada", 1, ODD_TEXT, ("read",), 2, 3), ApiKey("ab", b"", "bob", 4)]

    async def create() -> None:
        async with open_sqlite_keys(copied) as stored:
            for key in keys:
                await stored.create(key)

    async def listed() -> list[ApiKey]:
        async with open_postgres_keys(database) as stored:
            return list(await stored.list())

    asyncio.run(create())
    moved(copied, database)
    assert asyncio.run(listed()) == keys


def test_a_run_that_was_in_progress_resumes(copied: Path, database: str) -> None:
    moved(copied, database)
    with running_server(PROJECT, None, env={"THREADWIRE_STORAGE": database}) as server:
        server.wait_for_log("run_recovered", 60)


def test_a_database_with_data_is_rejected(copied: Path, database: str) -> None:
    moved(copied, database)
    with pytest.raises(Conflict, match="is not empty"):
        moved(copied, database)


def test_a_directory_in_use_is_rejected(copied: Path, database: str) -> None:
    with running_server(PROJECT, copied), pytest.raises(DataDirectoryLocked):
        moved(copied, database)


def test_a_directory_without_a_database_is_rejected(tmp_path: Path, database: str) -> None:
    with pytest.raises(ThreadwireError, match="is not a data directory"):
        moved(tmp_path, database)


def test_nothing_is_moved_if_a_row_cannot_be_stored(
    copied: Path, database: str, postgres_server: PostgresServer
) -> None:
    from threadwire.cli.migrate_command import run_migration

    run_migration(database, Console(quiet=True))
    name = database.rpartition("/")[2]
    postgres_server.execute("ALTER TABLE items ADD CHECK (length(key) < 2)", database=name)
    with pytest.raises(StorageError):
        moved(copied, database)
    postgres_server.execute(
        "DO $$ BEGIN IF EXISTS (SELECT FROM threads) THEN RAISE 'there are threads'; END IF; END $$", database=name
    )
