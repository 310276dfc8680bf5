"""A raw HTTP client that is never the bottleneck: it counts events in the received bytes and parses nothing."""

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

TOKEN = b"event: messages"
ANY_EVENT = b"event: "
STAMP = re.compile(rb"@(\d{19})@")
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class Failed(Exception):
    """A server did not do what was requested, so there is nothing to measure."""


@dataclass(slots=True)
class Exchange:
    """One request and its response. Times are from `perf_counter`."""

    done: "asyncio.Future[None]"
    count: bytes
    stamps: bool = False
    keep: bool = False
    sent: float = 0.0
    first: float = 0.0
    """When the first byte of the body arrived."""
    first_event: float = 0.0
    last_event: float = 0.0
    failed: bool = False
    """Whether the stream reported that the run failed."""
    head_at: float = 0.0
    last: float = 0.0
    status: int = 0
    events: int = 0
    size: int = 0
    latencies: list[float] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    _rest: bytes = b""
    _end: bytes = b""

    def take(self, data: bytes) -> None:
        now = time.perf_counter()
        self.first = self.first or now
        self.last = now
        self.size += len(data)
        if self.keep:
            self.body += data
        elif self.stamps:
            self._take_stamps(data)
        else:
            data = self._rest + data
            if found := data.count(self.count):
                self.events += found
                self.first_event = self.first_event or now
                self.last_event = now
            self._rest = data[1 - len(self.count) :]
        self.failed = self.failed or b"event: error" in data
        self._end = (self._end + data[-7:])[-7:]

    def _take_stamps(self, data: bytes) -> None:
        now = time.time_ns()
        self._rest += data
        last = 0
        for found in STAMP.finditer(self._rest):
            self.latencies.append((now - int(found[1])) / 1e9)
            last = found.end()
        self.events = len(self.latencies)
        self._rest = self._rest[max(last, len(self._rest) - 20) :]

    @property
    def ended(self) -> bool:
        return self._end == _LAST_CHUNK

    @property
    def seconds(self) -> float:
        return self.last - self.sent

    def json(self) -> Any:
        return json.loads(self.body)


class Connection(asyncio.Protocol):
    """A keep-alive connection; one exchange at a time."""

    def __init__(self, host: str, headers: dict[str, str] | None = None) -> None:
        self._host = host.encode()
        self._headers = headers or {}
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._head = b""
        self._left: int | None = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        count: bytes = ANY_EVENT,
        stamps: bool = False,
        keep: bool = False,
    ) -> Exchange:
        payload = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1".encode(), b"host: " + self._host, b"content-length: %d" % len(payload)]
        if payload:
            lines.append(b"content-type: application/json")
        lines += [f"{name}: {value}".encode() for name, value in {**self._headers, **(headers or {})}.items()]
        assert self._transport is not None
        exchange = Exchange(asyncio.get_running_loop().create_future(), count, stamps, keep)
        self._exchange, self._head = exchange, b""
        exchange.sent = time.perf_counter()
        self._transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + payload)
        return exchange

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        if not exchange.status:
            self._head += data
            head, found, data = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            exchange.head_at = time.perf_counter()
            exchange.status = int(head[9:12])
            length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
            self._left = int(length[1]) if length else None
            if exchange.status >= 400:
                exchange.keep = True
        if data:
            exchange.take(data)
        if exchange.ended if self._left is None else exchange.size >= self._left:
            exchange.last = exchange.last or exchange.head_at
            self._exchange = None
            if not exchange.done.done():
                exchange.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self._exchange is not None and not self._exchange.done.done():
            self._exchange.done.set_exception(Failed(f"The connection was lost: {error}"))

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Client:
    """A client for one server, for the LangGraph API that Threadwire and the stock server share."""

    def __init__(self, host: str, port: int, headers: dict[str, str] | None = None) -> None:
        self._host, self._port = host, port
        self._headers = headers
        """Sent with every request."""
        self.url = f"http://{host}:{port}"
        self._idle: list[Connection] = []

    async def connection(self) -> Connection:
        while self._idle:
            if (idle := self._idle.pop()).open:  # servers close connections that are idle for some seconds
                return idle
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(f"{self._host}:{self._port}", self._headers), self._host, self._port
        )
        return connection

    async def connections(self, count: int) -> None:
        """Open `count` connections in advance, so that connecting is not measured."""
        self._idle = [each for each in self._idle if each.open]
        idle, self._idle = self._idle, []
        self._idle = [*idle, *[await self.connection() for _ in range(count - len(idle))]]

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Exchange:
        connection = await self.connection()
        exchange = connection.send(method, path, body, **options)
        await exchange.done
        self._idle.append(connection)
        if exchange.status >= 400:
            raise Failed(f"{method} {path}: {exchange.status} {bytes(exchange.body[:300])!r}")
        if exchange.failed:
            raise Failed(f"{method} {path}: the run ended in error")
        return exchange

    async def thread(self) -> str:
        created = await self.ask("POST", "/threads", {}, keep=True)
        return str(created.json()["thread_id"])

    async def start(self, thread: str, graph: str, inputs: Any, **more: Any) -> str:
        started = await self.ask("POST", f"/threads/{thread}/runs", _run(graph, inputs, more), keep=True)
        return str(started.json()["run_id"])

    async def stream(self, graph: str, inputs: Any, thread: str | None = None, **more: Any) -> Exchange:
        options = {name: more.pop(name) for name in ("count", "stamps", "keep") if name in more}
        if thread is None:
            thread, more = str(uuid4()), {**more, "if_not_exists": "create"}
        return await self.ask("POST", f"/threads/{thread}/runs/stream", _run(graph, inputs, more), **options)

    async def tokens(self, inputs: dict[str, Any], thread: str | None = None, **more: Any) -> Exchange:
        """Stream tokens, and check that all of them arrived."""
        streamed = await self.stream("tokens", inputs, thread, stream_mode="messages-tuple", count=TOKEN, **more)
        if not more.get("keep") and streamed.events < inputs["count"]:
            raise Failed(f"only {streamed.events} of {inputs['count']} tokens arrived")
        return streamed

    async def wait(self, graph: str, inputs: Any) -> Exchange:
        """Run on a new thread and wait for the final values."""
        path = f"/threads/{uuid4()}/runs/wait"
        return await self.ask("POST", path, _run(graph, inputs, {"if_not_exists": "create"}), keep=True)

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()


def _run(graph: str, inputs: Any, more: dict[str, Any]) -> dict[str, Any]:
    return {"assistant_id": graph, "input": inputs, **more}
