"""The watchers of threads in this process, and their hints that a thread may have grown."""

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Protocol

from threadwire.core.ids import ThreadId


class Registry(Protocol):
    """Where a wakeup registers while it is used."""

    def add(self, thread_id: ThreadId, wakeup: "LocalWakeup") -> None: ...

    def remove(self, thread_id: ThreadId, wakeup: "LocalWakeup") -> None: ...


class LocalWakeup:
    """The hints of one watcher, on the storage's event loop. Kept small, because every open stream has one."""

    __slots__ = ("_hinted", "_thread_id", "_waiter", "_watchers")

    def __init__(self, watchers: Registry, thread_id: ThreadId) -> None:
        self._watchers = watchers
        self._thread_id = thread_id
        self._hinted = False
        self._waiter: asyncio.Future[bool] | None = None

    def __enter__(self) -> "LocalWakeup":
        self._watchers.add(self._thread_id, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watchers.remove(self._thread_id, self)

    def hint(self) -> None:
        if self._waiter is None or self._waiter.done():
            self._hinted = True
        else:
            self._waiter.set_result(True)

    async def wait(self, timeout: float) -> bool:
        if self._hinted:
            self._hinted = False
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        # Not `asyncio.timeout`: every subscriber awaits this for every entry, and a timer costs a tenth as much.
        timer = loop.call_later(timeout, _expire, waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None


def _expire(waiter: "asyncio.Future[bool]") -> None:
    if not waiter.done():
        waiter.set_result(False)


class LocalWatchers:
    """The watchers of each thread. Changed only on the storage's event loop; the writer only reads it.

    No lock is needed: a commit is readable before the writer checks, so a watcher added just afterwards reads it.
    """

    def __init__(self) -> None:
        self._watchers: dict[ThreadId, list[LocalWakeup]] = {}

    def add(self, thread_id: ThreadId, wakeup: LocalWakeup) -> None:
        self._watchers.setdefault(thread_id, []).append(wakeup)

    def remove(self, thread_id: ThreadId, wakeup: LocalWakeup) -> None:
        watching = self._watchers[thread_id]
        watching.remove(wakeup)
        if not watching:
            del self._watchers[thread_id]

    def watched(self, threads: Iterable[ThreadId]) -> list[ThreadId]:
        return [thread_id for thread_id in threads if thread_id in self._watchers]

    def hint(self, threads: list[ThreadId]) -> None:
        for thread_id in threads:
            for wakeup in self._watchers.get(thread_id, ()):
                wakeup.hint()
