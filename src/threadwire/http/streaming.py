"""Responses that stream what a follower yields, over raw ASGI: everything pending goes out in one send, heartbeats fill
the silence, and a disconnect is noticed immediately. (A response that only sends would not notice that its client has
left an idle stream until the next token, or ever.)

A response that cannot be completed aborts its connection: clients treat a response that ends normally as complete, and
reconnect if it does not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

import anyio
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from threadwire.core.json import dumps
from threadwire.errors import StorageError
from threadwire.http.sse import NAMED_HEARTBEAT

logger = structlog.get_logger("threadwire.http")

HEARTBEAT = 5.0
"""Seconds between two comments on a silent stream: the stock server's interval, which its clients rely on."""

SEND_TIMEOUT = 30.0
"""Seconds a send may wait for the client to read before the connection is aborted; the client can resume."""

DRAIN_SILENCE = 0.2
"""Seconds that a stream waits at shutdown for further entries, such as the end of its run."""

DRAIN_TIMEOUT = 2.0
"""Seconds that draining a stream at shutdown may take in total."""

CLOSE_TIMEOUT = 2.5
"""Seconds that a shutdown waits for all streams to end."""

ABORT = "threadwire.abort"
"""Key of the ASGI scope for a function that aborts the connection. Without one, the response is left incomplete, and
the web server aborts the connection."""

STREAM_HEADERS = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "content-type": "text/event-stream; charset=utf-8",
}

OnDisconnect = Callable[[], Awaitable[None]]


class OpenStreams:
    """The streams that are open, so that a shutdown can end all of them."""

    def __init__(self) -> None:
        self._open: set[anyio.CancelScope] = set()
        self._deadline: float | None = None
        """When `close` stops waiting; None until it is called."""
        self._ended = anyio.Event()
        """Set when a stream ends, once `close` was called."""

    @contextmanager
    def track(self) -> Iterator[anyio.CancelScope]:
        """Count a stream as open inside the `with`. A shutdown cancels the scope."""
        scope = anyio.CancelScope()
        self._open.add(scope)
        if self._deadline is not None:
            scope.cancel()
        try:
            yield scope
        finally:
            self._open.discard(scope)
            if self._deadline is not None:
                self._ended.set()

    async def close(self) -> None:
        """Let each stream send what is pending and end, and wait for them, but not longer than `CLOSE_TIMEOUT` seconds
        after the first call. A stream that is opened later ends immediately and is not waited for: clients may
        reconnect again and again."""
        if self._deadline is None:
            self._deadline = anyio.current_time() + CLOSE_TIMEOUT
        closing = set(self._open)
        for scope in closing:
            scope.cancel()
        with anyio.CancelScope(deadline=self._deadline):
            while not closing.isdisjoint(self._open):
                if self._ended.is_set():
                    self._ended = anyio.Event()
                await self._ended.wait()

    def __len__(self) -> int:
        return len(self._open)


class FrameSource(Protocol):
    """The source of a response's frames: the follower of a run or of a thread."""

    def __enter__(self) -> "FrameSource": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def next(self, timeout: float) -> list[bytes] | None:
        """Return frames, an empty list after `timeout` seconds of silence, or None after the last frames."""

    @property
    def finished(self) -> bool:
        """Whether `next` has returned the last frames."""


class LongResponse(Response):
    """A long-lived response: it sends until its source ends, the server shuts down, or the client disconnects."""

    def __init__(
        self,
        source: FrameSource,
        headers: dict[str, str],
        streams: OpenStreams,
        on_disconnect: OnDisconnect | None,
        *,
        heartbeat: bytes,
        first: Sequence[bytes] = (),
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(headers)
        self._source = source
        self._streams = streams
        self._on_disconnect = on_disconnect
        self._heartbeat = heartbeat
        self._first = first
        self._done = False
        self._client_left = False
        self._truncated = False
        """Whether a send is in progress or was abandoned. Nothing may be sent after an abandoned send."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        self.raw_headers = []  # free them: the stream may stay open for hours
        if scope["method"] == "HEAD":  # do not wait for a body that is not sent
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        with self._streams.track() as sending, self._source:
            with sending:
                # One task and one scope: a task group would double the memory of an idle stream.
                listening = asyncio.get_running_loop().create_task(self._watch_disconnect(receive, sending))
                try:
                    await self._send_all(send)
                except TimeoutError:  # the client does not read; it can resume
                    self._client_left = True
                except StorageError as error:  # too late for an error response: the headers are sent
                    self._truncated = True
                    logger.warning("stream_aborted", error=error.message)
                finally:
                    listening.cancel()
            if not (self._done or self._client_left or self._truncated):  # the server is shutting down
                with anyio.move_on_after(DRAIN_TIMEOUT):
                    await self._send_pending(send, DRAIN_SILENCE)
            if not self._done:
                await abort(scope, receive)
        if self._client_left and self._on_disconnect is not None:
            with anyio.CancelScope(shield=True):
                await self._on_disconnect()

    async def _send_all(self, send: Send) -> None:
        if self._first:
            await self._deliver(send, b"".join(self._first))
        while not self._done:
            await self._send_pending(send, HEARTBEAT)
            if not self._done:
                await self._deliver(send, self._heartbeat)

    async def _send_pending(self, send: Send, silence: float) -> None:
        """Send frames until the source is silent for that many seconds, or ends. The last frames go out with the
        closing message."""
        while (frames := await self._source.next(silence)) != [] or self._source.finished:
            last = frames is None or self._source.finished
            await self._deliver(send, b"".join(frames or ()), more=not last)
            if last:
                self._done = True
                return

    async def _deliver(self, send: Send, body: bytes, *, more: bool = True) -> None:
        self._truncated = True
        async with asyncio.timeout(SEND_TIMEOUT):
            await send({"type": "http.response.body", "body": body, "more_body": more})
        self._truncated = False

    async def _watch_disconnect(self, receive: Receive, sending: anyio.CancelScope) -> None:
        await _wait_for_disconnect(receive)
        self._client_left = True
        sending.cancel()


async def abort(scope: Scope, receive: Receive) -> None:
    """Abort the connection of a response that cannot be completed."""
    if (abort := scope.get(ABORT)) is not None:
        abort()
        with anyio.move_on_after(DRAIN_TIMEOUT):  # returning earlier would make the web server log an error
            await _wait_for_disconnect(receive)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event_stream(
    follower: FrameSource,
    streams: OpenStreams,
    *,
    first: Sequence[bytes] = (),
    headers: dict[str, str] | None = None,
    on_disconnect: OnDisconnect | None = None,
    heartbeat: bytes = NAMED_HEARTBEAT,
) -> LongResponse:
    return LongResponse(
        follower, {**STREAM_HEADERS, **(headers or {})}, streams, on_disconnect, heartbeat=heartbeat, first=first
    )


def slow_json(
    result: Callable[[], Awaitable[Any]],
    streams: OpenStreams,
    *,
    headers: dict[str, str] | None = None,
    on_disconnect: OnDisconnect | None = None,
) -> LongResponse:
    """A JSON response that is computed while the client waits: a newline every few seconds keeps proxies from timing
    out."""
    headers = {"content-type": "application/json", **(headers or {})}
    return LongResponse(_AwaitedResult(result), headers, streams, on_disconnect, heartbeat=b"\n")


class _AwaitedResult:
    """The source of a response that consists of one awaited result."""

    def __init__(self, result: Callable[[], Awaitable[Any]]) -> None:
        self._result = result
        self._task: asyncio.Future[Any] | None = None
        self.finished = False

    def __enter__(self) -> "_AwaitedResult":
        self._task = asyncio.ensure_future(self._result())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()

    async def next(self, timeout: float) -> list[bytes] | None:
        assert self._task is not None, "`next` is called inside the `with`"
        done, _ = await asyncio.wait([self._task], timeout=timeout)
        self.finished = bool(done)
        return [dumps(self._task.result())] if done else []
