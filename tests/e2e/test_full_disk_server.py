"""A server whose disk fills up and later has room again, with a restart in between."""

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from clients import PROJECT

from small_disk import SmallDisk, small_disk
from threadwire.testing.server import RunningServer, running_server

STEPS = 40


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def fill_up(disk: SmallDisk, http: httpx.Client) -> None:
    """Fill the disk, then store items until one is rejected."""
    disk.fill()
    for number in range(200):
        item = {"namespace": ["large"], "key": str(number), "value": {"data": os.urandom(200_000).hex()}}
        if (response := http.put("/store/items", json=item)).status_code != 204:
            assert response.status_code == 507
            assert response.headers["retry-after"] == "10"
            assert response.json()["detail"].startswith("The disk of the data directory is full.")
            return
    raise AssertionError("the disk never became full")


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 30
    while not (result := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result


def is_writable(http: httpx.Client) -> bool:
    found = re.search(r"^threadwire_storage_writable (\d)$", http.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return found[1] == "1"


def assert_reads_are_served_and_writes_rejected(http: httpx.Client, thread_id: str) -> None:
    assert http.get("/ok").json()["ok"] is True
    assert not is_writable(http)
    assert http.get(f"/threads/{thread_id}").json()["thread_id"] == thread_id
    assert http.get(f"/threads/{thread_id}/state").status_code == 200
    assert http.post("/threads/search", json={}).status_code == 200
    body = {"assistant_id": "echo", "input": {"text": "hi"}}
    for response in (
        http.post("/threads", json={}),
        http.post(f"/threads/{thread_id}/runs", json=body),
        http.post("/runs/stream", json=body),
        http.patch(f"/threads/{thread_id}", json={"metadata": {"a": 1}}),
    ):
        assert response.status_code == 507, response.text


@pytest.mark.parametrize("restarted", ["not restarted", "killed", pytest.param("stopped", marks=pytest.mark.extended)])
def test_runs_continue_by_themselves_when_a_full_disk_has_room_again(
    disk: SmallDisk, tmp_path: Path, restarted: str
) -> None:
    file = tmp_path / "steps.txt"
    with (
        running_server(PROJECT, disk.path / "data", env={"THREADWIRE_DRAIN_SECONDS": "0"}) as server,
        httpx.Client(base_url=server.url, timeout=30) as http,
    ):
        thread_id = http.post("/threads", json={}).json()["thread_id"]
        given = {"count": STEPS, "file": str(file), "delay": 0.1}
        config = {"recursion_limit": STEPS + 5}
        body = {"assistant_id": "steps", "input": given, "config": config}
        run = http.post(f"/threads/{thread_id}/runs", json=body).json()["run_id"]
        until(file.exists)
        fill_up(disk, http)
        until(lambda: "run_suspended" in server.log())
        assert http.get(f"/threads/{thread_id}/runs/{run}").json()["status"] == "pending"
        assert_reads_are_served_and_writes_rejected(http, thread_id)
        restart(server, restarted)
        if restarted != "not restarted":
            until(lambda: not is_writable(http))
            assert_reads_are_served_and_writes_rejected(http, thread_id)
        done = len(file.read_text().split())
        assert done < STEPS
        disk.free()
        assert http.get(f"/threads/{thread_id}/runs/{run}/join").json()["done"] == list(range(1, STEPS + 1))
        assert http.get(f"/threads/{thread_id}/runs/{run}").json()["status"] == "success"
        assert is_writable(http)
        times = Counter(map(int, file.read_text().split()))
        assert sorted(times) == list(range(1, STEPS + 1))
        assert sum(times.values()) <= STEPS + 2  # the step during which the disk became full, and that of a kill


def restart(server: RunningServer, how: str) -> None:
    match how:
        case "killed":
            server.kill()
            server.start()
        case "stopped":
            assert server.terminate() == 0
            server.start()
