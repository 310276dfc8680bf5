"""Hints, from any operating-system thread, that a thread's log may have grown (3.2, 3.3)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from threadwire.core.ids import ThreadId


class Watcher:
    """Belongs to the event loop that created it. `wake` is thread-safe."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._hint = asyncio.Event()

    def wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nothing waits on it any more
            self._loop.call_soon_threadsafe(self._hint.set)

    async def wait(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                await self._hint.wait()
        except TimeoutError:
            return False
        self._hint.clear()
        return True


class Watchers:
    def __init__(self) -> None:
        self._watchers: dict[ThreadId, set[Watcher]] = {}

    @contextmanager
    def watching(self, thread_id: ThreadId) -> Iterator[Watcher]:
        # Sets are replaced, never mutated, so that `wake` can iterate over one while watchers are added or removed.
        watcher = Watcher()
        self._watchers[thread_id] = self._watchers.get(thread_id, set()) | {watcher}
        try:
            yield watcher
        finally:
            if remaining := self._watchers[thread_id] - {watcher}:
                self._watchers[thread_id] = remaining
            else:
                del self._watchers[thread_id]

    def wake(self, thread_id: ThreadId) -> None:
        for watcher in self._watchers.get(thread_id, ()):
            watcher.wake()
