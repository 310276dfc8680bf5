"""Sending what a follower yields, over raw ASGI: everything pending in one send, heartbeats, and an ear for the client
leaving. (A response that only sends would notice a client that left an idle stream at its next token, or never.)

What cannot be sent to its end is cut off: clients take a response that ends properly for the whole of it, and come back
for the rest of one that does not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

import anyio
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from threadwire.core.json import dumps
from threadwire.errors import StorageError

logger = structlog.get_logger("threadwire.http")

HEARTBEAT = 5.0
"""Seconds between two comments on a silent stream: what the official server does, and what its clients measure."""

SEND_WITHIN = 30.0
"""Seconds a client may keep a send waiting before it is cut off; it can resume where it was."""

LAST_WORDS = 0.2
"""Seconds that a stream which has to end waits for what is on its way: the end of its run, perhaps."""

LAST_WITHIN = 2.0
"""Seconds within which all that must be sent."""

CUT = "threadwire.cut"
"""Where the scope of a request has a function that breaks off the connection. Without one it is left to the server,
which does so to responses that are not completed."""

STREAM_HEADERS = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "content-type": "text/event-stream; charset=utf-8",
}

OnDisconnect = Callable[[], Awaitable[None]]


class OpenStreams:
    """The streams being sent, so that a shutdown can end them all."""

    def __init__(self) -> None:
        self._open: set[anyio.CancelScope] = set()
        self._closed: anyio.Event | None = None

    @contextmanager
    def one(self) -> Iterator[anyio.CancelScope]:
        """For as long as a stream is open. The scope is for what a shutdown interrupts."""
        scope = anyio.CancelScope()
        self._open.add(scope)
        if self._closed is not None:
            scope.cancel()
        try:
            yield scope
        finally:
            self._open.discard(scope)
            if self._closed is not None and not self._open:
                self._closed.set()

    async def close(self) -> None:
        """Have each send what there is and end, and wait until they have. Those that are opened later end at once."""
        self._closed = anyio.Event()
        for scope in self._open:
            scope.cancel()
        if self._open:
            await self._closed.wait()

    def __len__(self) -> int:
        return len(self._open)


class Watcher(Protocol):
    """What is sent: the follower of a run or of a thread."""

    def __enter__(self) -> "Watcher": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def next(self, timeout: float) -> bytes | None:
        """Frames; `b""` after `timeout` seconds of silence; None when no more will come."""

    @property
    def finished(self) -> bool:
        """Whether what `next` gave was the last of it."""


class LongResponse(Response):
    """A response that lasts: it sends until it is done, the server shuts down, or the client has left."""

    def __init__(
        self,
        watcher: Watcher,
        headers: dict[str, str],
        streams: OpenStreams,
        on_disconnect: OnDisconnect | None,
        *,
        heartbeat: bytes,
        first: bytes = b"",
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(headers)
        self._watcher = watcher
        self._streams = streams
        self._on_disconnect = on_disconnect
        self._heartbeat = heartbeat
        self._first = first
        self._done = False
        self._left = False
        self._torn = False
        """A piece is being sent, or was when that was given up: what follows it must not be sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        self.raw_headers = []  # sent, and not to be carried for hours
        if scope["method"] == "HEAD":  # which asks for no more, and is not to wait for the end of a body
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        with self._streams.one() as sending, self._watcher:
            with sending:
                # One task and one scope: a task group would double what an idle stream weighs.
                listening = asyncio.get_running_loop().create_task(self._listen(receive, sending))
                try:
                    await self._send_all(send)
                except TimeoutError:  # the client does not read: let it go, it can resume
                    self._left = True
                except StorageError as error:  # the answer has begun, so it cannot be one any more
                    self._torn = True
                    logger.warning("stream_cut_off", error=error.message)
                finally:
                    listening.cancel()
            if not (self._done or self._left or self._torn):  # the server is going
                with anyio.move_on_after(LAST_WITHIN):
                    await self._send_on(send, LAST_WORDS)
            if not self._done:
                await _cut_off(scope, receive)
        if self._left and self._on_disconnect is not None:
            with anyio.CancelScope(shield=True):
                await self._on_disconnect()

    async def _send_all(self, send: Send) -> None:
        if self._first:
            await self._deliver(send, self._first)
        while not self._done:
            await self._send_on(send, HEARTBEAT)
            if not self._done:
                await self._deliver(send, self._heartbeat)

    async def _send_on(self, send: Send, patience: float) -> None:
        """Send what the watcher gives, up to a silence, or to its end, which goes out with the closing message."""
        while (frames := await self._watcher.next(patience)) != b"" or self._watcher.finished:
            last = frames is None or self._watcher.finished
            await self._deliver(send, frames or b"", more=not last)
            if last:
                self._done = True
                return

    async def _deliver(self, send: Send, body: bytes, *, more: bool = True) -> None:
        self._torn = True
        async with asyncio.timeout(SEND_WITHIN):
            await send({"type": "http.response.body", "body": body, "more_body": more})
        self._torn = False

    async def _listen(self, receive: Receive, sending: anyio.CancelScope) -> None:
        await _disconnected(receive)
        self._left = True
        sending.cancel()


async def _cut_off(scope: Scope, receive: Receive) -> None:
    if (cut := scope.get(CUT)) is not None:
        cut()
        with anyio.move_on_after(LAST_WITHIN):  # a server would complain about what returns before
            await _disconnected(receive)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event_stream(
    follower: Watcher,
    streams: OpenStreams,
    *,
    first: bytes = b"",
    headers: dict[str, str] | None = None,
    on_disconnect: OnDisconnect | None = None,
    heartbeat: bytes = b": heartbeat\r\n\r\n",
) -> LongResponse:
    return LongResponse(
        follower, {**STREAM_HEADERS, **(headers or {})}, streams, on_disconnect, heartbeat=heartbeat, first=first
    )


def patient_json(
    result: Callable[[], Awaitable[Any]],
    streams: OpenStreams,
    *,
    headers: dict[str, str] | None = None,
    on_disconnect: OnDisconnect | None = None,
) -> LongResponse:
    """JSON that takes a while: a newline every few seconds keeps proxies from giving up."""
    headers = {"content-type": "application/json", **(headers or {})}
    return LongResponse(_Awaited(result), headers, streams, on_disconnect, heartbeat=b"\n")


class _Awaited:
    """A watcher of what comes all at once."""

    def __init__(self, result: Callable[[], Awaitable[Any]]) -> None:
        self._result = result
        self._finding: asyncio.Future[Any] | None = None
        self.finished = False

    def __enter__(self) -> "_Awaited":
        self._finding = asyncio.ensure_future(self._result())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._finding is not None:
            self._finding.cancel()

    async def next(self, timeout: float) -> bytes | None:
        assert self._finding is not None, "a watcher is used inside its `with`"
        found, _ = await asyncio.wait([self._finding], timeout=timeout)
        self.finished = bool(found)
        return dumps(self._finding.result()) if found else b""
