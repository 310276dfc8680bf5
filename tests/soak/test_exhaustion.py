"""A server that runs out of connections, descriptors or disk space, again and again, while clients use it; and one that
is stopped while clients reconnect."""

import asyncio
import http.client
import os
import random
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from chaos import (
    AnsweringClient,
    ChaosClient,
    StatelessClient,
    StreamingClient,
    WaitingClient,
    close_clients,
    connect,
    fail_early,
    wait_until_idle,
)
from log_checker import check_directory

from small_disk import small_disk
from threadwire.testing.server import RunningServer, running_server

SECONDS = float(os.environ.get("SOAK_SECONDS", "5"))
SEED = int(os.environ.get("CHAOS_SEED", "7"))
TESTS = Path(__file__).parent.parent
PROJECT = TESTS / "integration" / "project" / "langgraph.json"
LIMITED = TESTS / "e2e" / "limited_server.py"

pytestmark = pytest.mark.timeout(7200 if SECONDS > 5 else 600)

INCOMPLETE = (
    b"",
    b"GET /ok HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ",
    b"POST /threads HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{",
    b"GET /threads/00000000-0000-0000-0000-000000000000/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
)


def started(*clients: ChaosClient) -> list[ChaosClient]:
    for client in clients:
        client.start()
    return [*clients]


def occupy(server: RunningServer, stopping: threading.Event, seed: int) -> None:
    """Open connections without using them, up to 300 at a time."""
    rng = random.Random(seed)
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    opened: list[socket.socket] = []
    while not stopping.is_set():
        with suppress(OSError):
            connection = socket.create_connection((host, int(port)), timeout=5)
            opened.append(connection)
            connection.sendall(rng.choice(INCOMPLETE))
        if len(opened) > 300:
            opened.pop(rng.randrange(len(opened))).close()
        time.sleep(0.002)
    for connection in opened:
        connection.close()


def test_no_run_fails_while_other_clients_hold_every_connection(tmp_path: Path) -> None:
    env = {"DESCRIPTORS": "256", "THREADWIRE_REQUEST_HEAD_SECONDS": "3", "THREADWIRE_REQUEST_BODY_SECONDS": "3"}
    stopping, checks = threading.Event(), 0
    with running_server(PROJECT, tmp_path / "data", program=LIMITED, env=env) as server:
        occupiers = [threading.Thread(target=occupy, args=(server, stopping, SEED + n), daemon=True) for n in range(2)]
        for thread in occupiers:
            thread.start()
        clients = started(StreamingClient(server, SEED), WaitingClient(server, SEED + 1))
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            assert httpx.get(f"{server.url}/ok", timeout=10).status_code == 200
            checks += 1
            fail_early(clients)
            time.sleep(0.1)
        outcomes = close_clients(clients)
        stopping.set()
        for thread in occupiers:
            thread.join()
        wait_until_idle(server)
        for client in clients:
            client.check()
        assert "Too many open files" not in server.log()
        assert server.terminate() == 0
        entries, violations = asyncio.run(check_directory(tmp_path / "data"))
    sys.stderr.write(f"{checks} health checks, {entries} entries, {dict(outcomes)}\n")
    assert violations == []
    assert not [name for name in outcomes if name.endswith(".error")]


def test_every_run_succeeds_on_a_disk_that_fills_and_frees_up(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    rounds = 0
    with (
        small_disk(tmp_path / "disk", megabytes=256) as disk,
        running_server(PROJECT, disk.path / "data", env={"THREADWIRE_DRAIN_SECONDS": "0"}) as server,
    ):
        kinds = (StreamingClient, WaitingClient, StatelessClient, AnsweringClient)
        clients = started(*(kind(server, SEED + number) for number, kind in enumerate(kinds)))
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline or not rounds:
            disk.fill()
            _store_until_full(server, rng)
            time.sleep(rng.uniform(0, 2))
            if rng.random() < 0.3:  # not often: the third crash of a run ends it in error
                assert server.terminate() == 0
                server.start()
            disk.free()
            _wait_until_writable(server)
            _delete_items(server)
            time.sleep(rng.uniform(0.5, 2))
            fail_early(clients)
            rounds += 1
        outcomes = close_clients(clients)
        wait_until_idle(server)
        for client in clients:
            client.check()
        assert server.terminate() == 0
        entries, violations = asyncio.run(check_directory(disk.path / "data"))
    sys.stderr.write(f"{rounds} rounds, {entries} entries, {dict(outcomes)}\n")
    assert violations == []
    assert not [name for name in outcomes if name.endswith(".error")]


def _store_until_full(server: RunningServer, rng: random.Random) -> None:
    for number in range(1000):
        item = {"namespace": ["filler"], "key": str(number), "value": {"data": rng.randbytes(200_000).hex()}}
        response = httpx.put(f"{server.url}/store/items", json=item, timeout=30)
        if response.status_code == 507:
            return
        assert response.status_code == 204, response.text
    raise AssertionError("the disk never became full")


def _delete_items(server: RunningServer) -> None:
    for number in range(1000):
        item = {"namespace": ["filler"], "key": str(number)}
        if httpx.get(f"{server.url}/store/items", params=item, timeout=30).json() is None:
            return
        httpx.request("DELETE", f"{server.url}/store/items", json=item, timeout=30)


def _wait_until_writable(server: RunningServer) -> None:
    deadline = time.monotonic() + 60
    while "threadwire_storage_writable 1" not in httpx.get(f"{server.url}/metrics", timeout=30).text:
        assert time.monotonic() < deadline, "the server does not continue"
        time.sleep(0.1)


def reconnect(server: RunningServer, stopping: threading.Event) -> None:
    """Follow a thread, and open the stream again as soon as it ends."""
    while not stopping.is_set():
        connection = connect(server, timeout=5)
        with suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/threads/00000000-0000-0000-0000-000000000000/stream")
            connection.getresponse().read()
        connection.close()
        time.sleep(0.03)


def test_the_server_stops_in_time_while_clients_reconnect(tmp_path: Path) -> None:
    stops, stopping, slowest = 0, threading.Event(), 0.0
    with running_server(PROJECT, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "1"}) as server:
        httpx.post(f"{server.url}/threads", json={"thread_id": "00000000-0000-0000-0000-000000000000"})
        clients = [threading.Thread(target=reconnect, args=(server, stopping), daemon=True) for _ in range(30)]
        for client in clients:
            client.start()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline or not stops:
            time.sleep(0.5)
            started_at = time.monotonic()
            assert server.terminate(timeout=6.5) == 0
            slowest = max(slowest, time.monotonic() - started_at)
            stops += 1
            server.start()
        stopping.set()
    for client in clients:
        client.join()
    sys.stderr.write(f"{stops} stops, the slowest took {slowest:.1f} s\n")
