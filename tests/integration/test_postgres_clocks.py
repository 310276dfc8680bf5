"""Processes whose clocks differ by an hour share a database: its clock decides."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stream_client import get, new_thread, post

from services.fixtures import postgres_server as postgres_server
from services.postgres_server import PostgresServer
from threadwire.testing.server import running_server

PROJECT = Path(__file__).parent / "project" / "langgraph.json"
WITHIN = 60.0


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    dsn = asyncio.run(postgres_server.create_database())
    yield dsn
    asyncio.run(postgres_server.drop_database(dsn))


def library() -> str:
    found = sorted(Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1"))
    assert found, "libfaketime is not installed: run `make setup`"
    return str(found[0])


@pytest.mark.parametrize("shift", ["+1h", "-1h"])
def test_a_worker_whose_clock_is_wrong_starts_runs_when_they_are_due(database: str, shift: str) -> None:
    env = {"THREADWIRE_STORAGE": database}
    faked = {**env, "LD_PRELOAD": library(), "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    with (
        running_server(PROJECT, None, env=env, options=["--role", "api"]) as api,
        running_server(PROJECT, None, env=faked, command="worker") as worker,
    ):
        worker.wait_for_log(r"clock_difference_found.*seconds=(-36|36)", WITHIN)
        race = {"assistant_id": "marathon", "input": {"messages": [{"role": "user", "content": "go"}], "count": 1}}
        thread_id = new_thread(api)
        later = post(api, f"/threads/{thread_id}/runs", {**race, "after_seconds": 1800})
        soon = post(api, f"/threads/{new_thread(api)}/runs", {**race, "after_seconds": 1})
        deadline = time.monotonic() + WITHIN
        while get(api, f"/threads/{soon['thread_id']}/runs/{soon['run_id']}")["status"] != "success":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert get(api, f"/threads/{thread_id}/runs/{later['run_id']}")["status"] == "pending"
