"""The sending side of a socket, usable from any thread.

All frames put during one iteration of an event loop are sent with one system call, on the thread that put them: passing
them to another thread would cost a context switch for every token.
"""

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable

MAX_PENDING_BYTES = 256 * 1024
"""From this many unsent bytes on, senders should wait. The other side reads more slowly than this side writes."""


class Outbox:
    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop, on_error: Callable[[], None]) -> None:
        self._socket = sock
        self._loop = loop
        self._on_error = on_error
        self._lock = threading.Lock()
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._scheduled: asyncio.AbstractEventLoop | None = None
        """The event loop whose next iteration will send what is pending. A node may block it, so other threads do not
        rely on it."""
        self._blocked = False
        """Whether the socket is full. The outbox's own loop then sends the rest later."""
        self._closed = False
        self._room: set[asyncio.Future[None]] = set()

    @property
    def is_full(self) -> bool:
        return self._pending_bytes >= MAX_PENDING_BYTES

    def put(self, frame: bytes, *, at_once: bool = False) -> None:
        """Send a frame soon, or immediately if the caller is about to block its thread."""
        with self._lock:
            if self._closed:
                return
            self._pending.append(frame)
            self._pending_bytes += len(frame)
            if self._blocked:
                return
            loop = None if at_once else _running_loop()
            if loop is None or self._scheduled not in (None, loop):
                self._send()
            elif self._scheduled is None:
                self._scheduled = loop
                loop.call_soon(self._send_scheduled)

    async def wait_for_room(self) -> None:
        """Return once senders need not wait. Usable on any event loop."""
        while self.is_full and not self._closed:
            room = asyncio.get_running_loop().create_future()
            with self._lock:
                if not self.is_full:
                    return
                self._room.add(room)
            await room

    def close(self) -> None:
        """Discard what is pending. Called on the outbox's own loop."""
        with self._lock:
            self._closed = True
            self._pending.clear()
            self._pending_bytes = 0
            if self._blocked:
                self._loop.remove_writer(self._socket)
            self._notify_waiters()

    def _send_scheduled(self) -> None:
        with self._lock:
            self._scheduled = None
            if not self._blocked:
                self._send()

    def _send(self) -> None:
        """Send as much as the socket accepts. The caller holds the lock."""
        while self._pending and not self._closed:
            data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
            self._pending.clear()
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:  # the other process has ended, which the reading side notices too
                self._closed = True
                self._loop.call_soon_threadsafe(self._on_error)
                return
            self._pending_bytes = len(data) - sent
            if sent < len(data):
                self._pending.append(data[sent:])
                if not self._blocked:
                    self._blocked = True
                    self._loop.call_soon_threadsafe(self._send_when_writable)
                return
        if self._room and not self.is_full:
            self._notify_waiters()

    def _send_when_writable(self) -> None:
        if not self._closed:
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        with self._lock:
            self._send()
            if not self._pending:
                self._blocked = False
                self._loop.remove_writer(self._socket)

    def _notify_waiters(self) -> None:
        for room in self._room:
            loop = room.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, room)
        self._room.clear()


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
