"""Clients that hold connections without using them, and more streams than the process has file descriptors for."""

import http.client
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from clients import PROJECT

from threadwire.testing.server import RunningServer, running_server

LIMITED = Path(__file__).parent / "limited_server.py"

INCOMPLETE = {
    "silent": b"",
    "slow head": b"GET /ok HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ",
    "slow body": b"POST /threads HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{",
}


@contextmanager
def limited_server(directory: Path, **settings: str) -> Iterator[RunningServer]:
    """A server that may open 256 files, with these settings."""
    env = {"DESCRIPTORS": "256", **{f"THREADWIRE_{name}": value for name, value in settings.items()}}
    with running_server(PROJECT, directory, program=LIMITED, env=env) as server:
        yield server


def connect(server: RunningServer, sent: bytes) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.sendall(sent)
    return connection


def metric(server: RunningServer, name: str) -> int:
    found = re.search(rf"^{re.escape(name)} (\d+)$", httpx.get(f"{server.url}/metrics").text, re.MULTILINE)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("kind", INCOMPLETE)
def test_slow_and_silent_connections_do_not_make_the_server_unreachable(kind: str, tmp_path: Path) -> None:
    with limited_server(tmp_path / "data", REQUEST_HEAD_SECONDS="2", REQUEST_BODY_SECONDS="2") as server:
        assert "limits_lowered" in server.log()
        with ExitStack() as opened:
            for number in range(240):
                opened.enter_context(connect(server, INCOMPLETE[kind]))
                if number % 20 == 0:
                    assert httpx.get(f"{server.url}/ok").status_code == 200
            for _ in range(10):
                assert httpx.get(f"{server.url}/ok").status_code == 200
            assert httpx.post(f"{server.url}/threads", json={}).status_code == 200
            deadline = time.monotonic() + 20
            while metric(server, "threadwire_connections") > 1:  # that of the request itself
                assert time.monotonic() < deadline


def test_streams_beyond_the_limit_are_rejected_and_every_accepted_run_succeeds(tmp_path: Path) -> None:
    with limited_server(tmp_path / "data") as server:
        (gate := tmp_path / "gate").touch()
        thread = httpx.post(f"{server.url}/threads", json={}).json()["thread_id"]
        statuses: Counter[int] = Counter()
        streams: list[http.client.HTTPConnection] = []
        for _ in range(240):
            connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
            connection.request("GET", f"/threads/{thread}/stream")
            streams.append(connection)
            response = connection.getresponse()
            statuses[response.status] += 1
            if response.status == 503:
                assert response.headers["retry-after"] == "10"
                assert response.read() == b'{"detail":"The server has too many open connections. Retry later."}'
        assert statuses == {200: 80, 503: 160}
        assert httpx.get(f"{server.url}/ok").status_code == 200
        assert metric(server, "threadwire_connections_rejected_total") == 160
        streams[0].close()
        with httpx.Client(base_url=server.url, timeout=60) as client:
            body = {"assistant_id": "slow", "input": {"until": str(gate)}}
            runs = [client.post("/runs", json=body).json()["run_id"] for _ in range(59)]
            assert [client.get(f"/runs/{run}/join").json()["steps"] for run in runs] == [["begun", "waited"]] * 59
        for connection in streams:
            connection.close()
