"""PostgreSQL runs out of room for its tables, and later has room again. Its log is on another disk, as recommended."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from clients import PROJECT

from services.postgres_server import SUPERUSER, PostgresServer, running_postgres
from small_disk import SmallDisk, small_disk
from threadwire.testing.server import RunningServer, running_server

STEPS = 40
LARGE = 200_000


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with running_postgres(durable=True) as server:
        yield server


@pytest.fixture
def disk(postgres: PostgresServer) -> Iterator[SmallDisk]:
    with small_disk(postgres.data.parent / "disk") as disk:
        tables = disk.path / "tables"
        tables.mkdir()
        shutil.chown(tables, SUPERUSER)
        postgres.execute(f"CREATE TABLESPACE small LOCATION '{tables}'")
        postgres.execute("CREATE DATABASE full_disk TABLESPACE small TEMPLATE template0")
        yield disk
        postgres.stop("immediate")  # it has files open on the disk


@pytest.fixture
def server(postgres: PostgresServer, disk: SmallDisk, tmp_path: Path) -> Iterator[RunningServer]:
    env = {"THREADWIRE_STORAGE": postgres.dsn("full_disk")}
    with running_server(PROJECT, tmp_path / "data", env=env) as server:
        yield server


def put_large(http: httpx.Client, key: str) -> httpx.Response:
    item = {"namespace": ["large"], "key": key, "value": {"data": os.urandom(LARGE).hex()}}
    return http.put("/store/items", json=item)


def fill_up(disk: SmallDisk, http: httpx.Client) -> int:
    """Fill the disk, then store items until one is rejected. Returns how many were stored."""
    disk.fill()
    for number in range(200):
        if (response := put_large(http, str(number))).status_code != 204:
            assert response.status_code == 507, response.text
            assert response.headers["retry-after"] == "10"
            assert response.json()["detail"].startswith("The database has no room")
            return number
    raise AssertionError("the disk never became full")


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 90
    while not (result := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result


def is_writable(http: httpx.Client) -> bool:
    found = re.search(r"^threadwire_storage_writable (\d)$", http.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return found[1] == "1"


def test_writes_are_rejected_and_reads_are_served_until_there_is_room(disk: SmallDisk, server: RunningServer) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as http:
        thread_id = http.post("/threads", json={"metadata": {"a": "before"}}).json()["thread_id"]
        stored = fill_up(disk, http)
        large_input = {"assistant_id": "echo", "input": {"text": os.urandom(LARGE).hex()}}
        assert http.post(f"/threads/{thread_id}/runs", json=large_input).status_code == 507
        assert http.get("/ok").json()["ok"] is True
        assert http.get(f"/threads/{thread_id}").json()["metadata"]["a"] == "before"
        assert http.get(f"/threads/{thread_id}/state").status_code == 200
        found = http.post("/store/items/search", json={"namespace_prefix": ["large"], "limit": 200}).json()["items"]
        assert len(found) == stored
        disk.free()
        assert put_large(http, "after").status_code == 204
        assert http.post(f"/threads/{thread_id}/runs/wait", json=large_input).status_code == 200
        until(lambda: is_writable(http))


def test_runs_that_had_no_room_continue_by_themselves(disk: SmallDisk, server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "steps.txt"
    with httpx.Client(base_url=server.url, timeout=120) as http:
        thread_id = http.post("/threads", json={}).json()["thread_id"]
        given = {"count": STEPS, "file": str(file), "delay": 0.1, "text": os.urandom(LARGE).hex()}
        body = {"assistant_id": "steps", "input": given, "config": {"recursion_limit": STEPS + 5}}
        run = http.post(f"/threads/{thread_id}/runs", json=body).json()["run_id"]
        until(file.exists)
        fill_up(disk, http)
        until(lambda: "run_suspended" in server.log())
        assert not is_writable(http)
        disk.free()
        assert http.get(f"/threads/{thread_id}/runs/{run}/join").json()["done"] == list(range(1, STEPS + 1))
        assert http.get(f"/threads/{thread_id}/runs/{run}").json()["status"] == "success"
        assert sorted({*map(int, file.read_text().split())}) == list(range(1, STEPS + 1))
        until(lambda: is_writable(http))
