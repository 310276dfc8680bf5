"""A client that follows a run over raw HTTP, survives server crashes, and records every byte it receives."""

import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from threadwire.testing.server import RunningServer

TERMINAL = {"success", "error", "interrupted", "timeout"}
Frame = tuple[int, bytes]


def request(
    server: RunningServer, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    connection = _connect(server)
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, path, payload, {"content-type": "application/json", **(headers or {})})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text.strip() else None
    finally:
        connection.close()


def post(server: RunningServer, path: str, body: Any) -> Any:
    status, response = request(server, "POST", path, body)
    assert status == 200, response
    return response


def get(server: RunningServer, path: str) -> Any:
    status, response = request(server, "GET", path)
    assert status == 200, response
    return response


def replay(server: RunningServer, path: str, after: str = "-1") -> bytes:
    """Everything a stream sends after a position, up to its clean end, without heartbeats."""
    connection = _connect(server)
    try:
        connection.request("GET", path, headers={"Last-Event-ID": after})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        return response.read().replace(b": heartbeat\r\n\r\n", b"")
    finally:
        connection.close()


def join(server: RunningServer, run_path: str, modes: Sequence[str]) -> bytes:
    """Like `replay`, with these modes, for a run that is in progress when the stream starts."""
    query = urlencode([("stream_mode", mode) for mode in modes])
    connection = _connect(server)
    try:
        connection.request("GET", f"{run_path}/stream?{query}", headers={"Last-Event-ID": "-1"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        first = response.read1(65536)
        assert get(server, run_path)["status"] == "running"
        return (first + response.read()).replace(b": heartbeat\r\n\r\n", b"")
    finally:
        connection.close()


@dataclass
class StreamClient:
    """Starts a run and follows it to its end, however often the server crashes."""

    server: RunningServer
    thread_id: str
    body: dict[str, Any]
    key: str = field(default_factory=lambda: uuid4().hex)
    run_path: str | None = None
    frames: list[Frame] = field(default_factory=list)
    _pending: bytes = b""

    def watch(self, kill_at: int | None = None) -> bool:
        """Read until the stream ends cleanly (True) or is cut off (False). With `kill_at`, kill the server after that
        many frames."""
        self._pending = b""
        connection = _connect(self.server)
        try:
            response = self._open(connection)
            self._check_status(response)
            self.run_path = response.headers["content-location"]
            while chunk := response.read1(65536):
                self._receive(chunk)
                if kill_at is not None and len(self.frames) >= kill_at:
                    self.server.process.kill()
            return not response.chunk_left and self._has_ended()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _open(self, connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        if self.run_path is None:
            # The same key: if the first request was accepted before the crash, this one returns its run.
            headers = {"content-type": "application/json", "Idempotency-Key": self.key}
            connection.request("POST", f"/threads/{self.thread_id}/runs/stream", json.dumps(self.body), headers)
        else:
            after = str(self.frames[-1][0]) if self.frames else "-1"
            connection.request("GET", f"{self.run_path}/stream", headers={"Last-Event-ID": after})
        return connection.getresponse()

    def _check_status(self, response: http.client.HTTPResponse) -> None:
        assert response.status == 200, response.read()

    def _receive(self, chunk: bytes) -> None:
        """Record complete frames only. Frames without an id belong to the next frame that has one."""
        *blocks, self._pending = (self._pending + chunk).split(b"\r\n\r\n")
        complete = b""
        for block in blocks:
            if block.startswith(b":"):
                continue
            complete += block + b"\r\n\r\n"
            name, _, value = block.rpartition(b"\r\n")[2].partition(b": ")
            if name == b"id":
                self.frames.append((int(value), complete))
                complete = b""
        self._pending = complete + self._pending

    def _has_ended(self) -> bool:
        assert self.run_path is not None
        return self.status() in TERMINAL

    def status(self) -> str:
        return str(get(self.server, str(self.run_path))["status"])

    @property
    def received(self) -> bytes:
        return b"".join(frame for _, frame in self.frames)

    @property
    def ids(self) -> list[int]:
        return [seq for seq, _ in self.frames]


def new_thread(server: RunningServer) -> str:
    return str(post(server, "/threads", {})["thread_id"])


def _connect(server: RunningServer) -> http.client.HTTPConnection:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    return http.client.HTTPConnection(host, int(port), timeout=60)
