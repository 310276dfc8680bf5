"""Sending what a follower yields, over raw ASGI: everything pending in one send, heartbeats, and an ear for the client
leaving. (A response that only sends would notice a client that left an idle stream at its next token, or never.)
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from threadwire.core.json import dumps

HEARTBEAT = 5.0
"""Seconds between two comments on a silent stream: what the official server does, and what its clients measure."""

SEND_WITHIN = 30.0
"""Seconds a client may keep a send waiting before it is cut off; it can resume where it was."""

STREAM_HEADERS = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "content-type": "text/event-stream; charset=utf-8",
}

OnDisconnect = Callable[[], Awaitable[None]]


class OpenStreams:
    """The streams being sent, so that a shutdown can end each one cleanly where it stands."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._closed = False

    @contextmanager
    def one(self) -> Iterator[anyio.CancelScope]:
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            if self._closed:
                scope.cancel()
            try:
                yield scope
            finally:
                self._scopes.discard(scope)

    def close(self) -> None:
        self._closed = True
        for scope in self._scopes:
            scope.cancel()

    def __len__(self) -> int:
        return len(self._scopes)


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


SendAll = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[bytes]]
"""Delivers a body piece by piece with the function it is given, and returns the last piece."""


class LongResponse(Response):
    """A response that lasts: it sends until it is done, the server shuts down, or the client has left."""

    def __init__(
        self,
        send_all: SendAll,
        headers: dict[str, str],
        streams: OpenStreams,
        on_disconnect: OnDisconnect | None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(headers)
        self._send_all = send_all
        self._streams = streams
        self._on_disconnect = on_disconnect
        self._left = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        self.raw_headers = []  # sent, and not to be carried for hours
        last = b""
        with self._streams.one() as sending:
            # One task and one scope: a task group would double what an idle stream weighs.
            listening = asyncio.get_running_loop().create_task(self._listen(receive, sending))
            try:
                last = await self._sent(send)
            finally:
                listening.cancel()
        if not self._left:
            await send({"type": "http.response.body", "body": last, "more_body": False})
        elif self._on_disconnect is not None:
            with anyio.CancelScope(shield=True):
                await self._on_disconnect()

    async def _sent(self, send: Send) -> bytes:
        async def deliver(body: bytes) -> None:
            async with asyncio.timeout(SEND_WITHIN):
                await send({"type": "http.response.body", "body": body, "more_body": True})

        try:
            return await self._send_all(deliver)
        except TimeoutError:  # the client does not read: let it go, it can resume
            self._left = True
            return b""

    async def _listen(self, receive: Receive, sending: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._left = True
        sending.cancel()


def event_stream(
    follower: Watcher,
    streams: OpenStreams,
    *,
    first: bytes = b"",
    headers: dict[str, str] | None = None,
    on_disconnect: OnDisconnect | None = None,
    heartbeat: bytes = b": heartbeat\r\n\r\n",
) -> LongResponse:
    async def send_all(deliver: Callable[[bytes], Awaitable[None]]) -> bytes:
        with follower:
            if first:
                await deliver(first)
            while (frames := await follower.next(HEARTBEAT)) is not None:
                if follower.finished:
                    return frames  # the last of it goes out with the closing message
                await deliver(frames or heartbeat)
        return b""

    return LongResponse(send_all, {**STREAM_HEADERS, **(headers or {})}, streams, on_disconnect)


def patient_json(
    result: Callable[[], Awaitable[Any]],
    streams: OpenStreams,
    *,
    headers: dict[str, str] | None = None,
    on_disconnect: OnDisconnect | None = None,
) -> LongResponse:
    """JSON that takes a while: a newline every few seconds keeps proxies from giving up."""

    async def send_all(deliver: Callable[[bytes], Awaitable[None]]) -> bytes:
        finding = asyncio.ensure_future(result())
        try:
            while not (await asyncio.wait([finding], timeout=HEARTBEAT))[0]:
                await deliver(b"\n")
            return dumps(finding.result())
        finally:
            finding.cancel()

    return LongResponse(send_all, {"content-type": "application/json", **(headers or {})}, streams, on_disconnect)
