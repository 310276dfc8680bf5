"""A connection between two processes of one server: notifications and requests, in both directions.

Each side registers handlers by name. A notification has no response; the handlers of notifications are called in the
order in which they were sent. A request gets a result or an error; its handler is a coroutine function. Both can be
sent from any thread, and what one thread sends arrives in order.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from itertools import count
from typing import Any

import structlog

from threadwire.errors import ConnectionLost, RequestFailed, ThreadwireError
from threadwire.ipc.frames import Frame, FrameReader, encode
from threadwire.ipc.outbox import Outbox

logger = structlog.get_logger("threadwire.ipc")

_READ_BYTES = 256 * 1024
_NOTIFY, _REQUEST, _RESULT, _ERROR = range(4)


class Channel:
    """Belongs to the event loop that opens it, and reads there."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(sock, self._loop, self._end)
        self._frames = FrameReader()
        self._notified: dict[str, Callable[..., None]] = {}
        self._requested: dict[str, Callable[..., Awaitable[Any]]] = {}
        self._numbers = count(1)
        self._pending: dict[int, Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._end_callbacks: list[Callable[[], None]] = []
        self._paused = False
        self._reading = False

    def open(self) -> None:
        """Start to read. Register the handlers first."""
        self._reading = True
        self._loop.add_reader(self._socket, self._read)

    def on_notification(self, name: str, handler: Callable[..., None]) -> None:
        self._notified[name] = handler

    def on_request(self, name: str, handler: Callable[..., Awaitable[Any]]) -> None:
        self._requested[name] = handler

    def on_end(self, callback: Callable[[], None]) -> None:
        self._end_callbacks.append(callback)

    # Sending, on any thread

    def notify(self, name: str, *arguments: Any) -> None:
        """Send a notification. It has no effect if the connection is lost."""
        self._outbox.put(encode(_NOTIFY, 0, (name, arguments)))

    async def request(self, name: str, *arguments: Any) -> Any:
        """Send a request and wait for its result. Raises the error of the handler, or `ConnectionLost`."""
        return await asyncio.wrap_future(self.start_request(name, *arguments))

    def request_blocking(self, name: str, *arguments: Any) -> Any:
        """Like `request`, but blocks the calling thread, which must not be the channel's."""
        return self._send(name, arguments, at_once=True).result()

    def start_request(self, name: str, *arguments: Any) -> "Future[Any]":
        """Send a request without waiting for its result."""
        return self._send(name, arguments)

    def _send(self, name: str, arguments: tuple[Any, ...], *, at_once: bool = False) -> "Future[Any]":
        number = next(self._numbers)
        frame = encode(_REQUEST, number, (name, arguments))
        done: Future[Any] = Future()
        self._pending[number] = done
        self._outbox.put(frame, at_once=at_once)
        if self._ended.is_set():
            self._fail_pending()
        return done

    @property
    def is_full(self) -> bool:
        """Whether the other side reads more slowly than this side writes."""
        return self._outbox.is_full

    async def wait_for_room(self) -> None:
        await self._outbox.wait_for_room()

    # Receiving, on the channel's loop

    def pause_until(self, is_ready: Callable[[], Awaitable[None]]) -> None:
        """Stop reading until `is_ready` returns, so that the other side has to wait."""
        if self._reading and not self._paused:
            self._paused = True
            self._loop.remove_reader(self._socket)
            self._start(self._resume_after(is_ready))

    async def _resume_after(self, is_ready: Callable[[], Awaitable[None]]) -> None:
        try:
            await is_ready()
        finally:
            self._paused = False
            if self._reading:
                self._loop.add_reader(self._socket, self._read)

    async def wait_until_ended(self) -> None:
        """Return once the other side has closed the connection, or its process has ended."""
        await self._ended.wait()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def close(self) -> None:
        self._end()
        self._socket.close()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        for frame in self._frames.feed(data):
            self._receive(frame)

    def _receive(self, frame: Frame) -> None:
        try:
            content = frame.content()
        except Exception as error:
            self._reject(frame, error)
            return
        if frame.kind == _NOTIFY:
            name, arguments = content
            if (handler := self._notified.get(name)) is not None:  # a side that is still starting lacks some handlers
                handler(*arguments)
        elif frame.kind == _REQUEST:
            self._start(self._respond(frame.number, *content))
        elif frame.kind == _RESULT:
            self._resolve(frame.number, lambda done: done.set_result(content))
        else:
            self._resolve(frame.number, lambda done: done.set_exception(content))

    def _reject(self, frame: Frame, error: Exception) -> None:
        """Report a message that cannot be decoded. If it is a notification, end the connection: later messages
        assume that it was received."""
        logger.error("channel_message_rejected", error=f"{type(error).__name__}: {error}")
        failure = RequestFailed(str(error))
        if frame.kind == _NOTIFY:
            self._end()
        elif frame.kind == _REQUEST:
            self._outbox.put(encode(_ERROR, frame.number, failure))
        else:
            self._resolve(frame.number, lambda done: done.set_exception(failure))

    def _resolve(self, number: int, set_outcome: "Callable[[Future[Any]], None]") -> None:
        done = self._pending.pop(number, None)
        if done is not None and done.set_running_or_notify_cancel():
            set_outcome(done)

    async def _respond(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        try:
            frame = encode(_RESULT, number, await self._requested[name](*arguments))
        except Exception as error:
            frame = encode(_ERROR, number, _portable(error, name))
        self._outbox.put(frame)

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end(self) -> None:
        if self._ended.is_set():
            return
        if self._reading and not self._paused:
            self._loop.remove_reader(self._socket)
        self._reading = False
        self._ended.set()
        self._outbox.close()
        self._fail_pending()
        for callback in self._end_callbacks:
            callback()

    def _fail_pending(self) -> None:
        while self._pending:
            _, done = self._pending.popitem()
            if done.set_running_or_notify_cancel():
                done.set_exception(ConnectionLost())


def _portable(error: Exception, name: str) -> ThreadwireError:
    """Return an error that the other side can raise: ours without its cause, any other as its name and message."""
    if isinstance(error, ThreadwireError) and type(error).__module__ == ThreadwireError.__module__:
        return type(error)(*map(str, error.args))
    logger.error("channel_request_failed", request=name, exc_info=error)
    return RequestFailed(f"{type(error).__name__}: {error}")
