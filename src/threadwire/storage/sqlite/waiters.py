"""Callers that wait for a job of the writer, on event loops and on threads without one."""

import asyncio
import threading
from collections.abc import Iterable
from typing import Protocol, TypeAlias

from threadwire.core.ids import ThreadId

Waiter: TypeAlias = "asyncio.Future[None] | threading.Lock"


class Watchers(Protocol):
    """The subscribers to be notified when threads grow."""

    def watched(self, threads: Iterable[ThreadId]) -> list[ThreadId]:
        """Which of these threads are watched. Called by the writer."""

    def hint(self, threads: list[ThreadId]) -> None:
        """Wake the watchers of these threads. Called on the storage's event loop."""


class Waiters:
    """Callers that wait until a position in the queue is synced.

    Changed only with the writer's lock held; notified without it.
    """

    def __init__(self, watchers: Watchers, loop: asyncio.AbstractEventLoop) -> None:
        self._watchers = watchers
        self._loop = loop
        self._urgent: list[tuple[int, Waiter]] = []
        self._deferred: list[tuple[int, Waiter]] = []

    @property
    def has_urgent(self) -> bool:
        return bool(self._urgent)

    def add(self, position: int, waiter: Waiter, *, defer_sync: bool = False) -> None:
        (self._deferred if defer_sync else self._urgent).append((position, waiter))

    def pop_ready(self, position: int) -> list[Waiter]:
        """Remove and return the waiters up to this position."""
        ready = [waiter for at, waiter in (*self._deferred, *self._urgent) if at <= position]
        if ready:
            self._urgent = [item for item in self._urgent if item[0] > position]
            self._deferred = [item for item in self._deferred if item[0] > position]
        return ready

    def pop_all(self) -> list[Waiter]:
        ready = [waiter for _, waiter in (*self._deferred, *self._urgent)]
        self._urgent.clear()
        self._deferred.clear()
        return ready

    def notify(self, ready: list[Waiter], grown: Iterable[ThreadId] = ()) -> None:
        """Resolve these waiters and wake the watchers of the threads that have grown, in one call per event loop."""
        watched = self._watchers.watched(grown)
        futures: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        if watched:
            futures[self._loop] = []
        for waiter in ready:
            if isinstance(waiter, asyncio.Future):
                futures.setdefault(waiter.get_loop(), []).append(waiter)
            else:
                waiter.release()
        for loop, waiting in futures.items():
            try:
                loop.call_soon_threadsafe(self._resolve, waiting, watched if loop is self._loop else None)
            except RuntimeError:
                # The loop was closed while a caller on it was waiting: no task is left to resume.
                continue

    def _resolve(self, waiting: list[asyncio.Future[None]], watched: list[ThreadId] | None) -> None:
        for future in waiting:
            if not future.done():
                future.set_result(None)
        if watched:
            self._watchers.hint(watched)
