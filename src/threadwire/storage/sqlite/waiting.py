"""Who waits for what the writer has been given, on event loops and on threads without one."""

import asyncio
import threading
from collections.abc import Iterable
from typing import Protocol, TypeAlias

from threadwire.core.ids import ThreadId

Waiter: TypeAlias = "asyncio.Future[None] | threading.Lock"


class Watchers(Protocol):
    """Who is to be told that threads have grown."""

    def watched(self, threads: Iterable[ThreadId]) -> list[ThreadId]:
        """Those that somebody watches. Called by the writer."""

    def hint(self, threads: list[ThreadId]) -> None:
        """Called on the storage's own loop."""


class Waiters:
    """Each waits for a position in the queue. Changed under the writer's lock; told without it."""

    def __init__(self, watchers: Watchers, loop: asyncio.AbstractEventLoop) -> None:
        self._watchers = watchers
        self._loop = loop
        self._waiting: list[tuple[int, Waiter]] = []
        self._patient: list[tuple[int, Waiter]] = []

    @property
    def impatient(self) -> bool:
        return bool(self._waiting)

    def add(self, position: int, waiter: Waiter, *, patient: bool = False) -> None:
        (self._patient if patient else self._waiting).append((position, waiter))

    def take(self, upto: int) -> list[Waiter]:
        """Those who need not wait any longer."""
        ready = [waiter for position, waiter in (*self._patient, *self._waiting) if position <= upto]
        if ready:
            self._waiting = [item for item in self._waiting if item[0] > upto]
            self._patient = [item for item in self._patient if item[0] > upto]
        return ready

    def take_all(self) -> list[Waiter]:
        ready = [waiter for _, waiter in (*self._patient, *self._waiting)]
        self._waiting.clear()
        self._patient.clear()
        return ready

    def tell(self, ready: list[Waiter], grown: Iterable[ThreadId] = ()) -> None:
        """One call into each event loop, however many wait there, or watch the threads that have grown."""
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
                # The loop was closed while somebody on it still waited: there is nobody left to tell.
                continue

    def _resolve(self, waiting: list[asyncio.Future[None]], watched: list[ThreadId] | None) -> None:
        for future in waiting:
            if not future.done():
                future.set_result(None)
        if watched:
            self._watchers.hint(watched)
