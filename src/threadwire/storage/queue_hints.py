"""Hints for the workers of this process that the queue has changed."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from threadwire.core.records import QueueHint


class QueueWatcher:
    """Belongs to the event loop that created it. `hint` is thread-safe."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._hints = QueueHint.NOTHING

    def hint(self, hint: QueueHint) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nothing waits on it any more
            self._loop.call_soon_threadsafe(self._add, hint)

    def _add(self, hint: QueueHint) -> None:
        self._hints |= hint
        self._arrived.set()

    async def wait(self, timeout: float) -> QueueHint:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._arrived.wait()
        self._arrived.clear()
        hints, self._hints = self._hints, QueueHint.NOTHING
        return hints


class QueueHints:
    def __init__(self) -> None:
        self._watchers: frozenset[QueueWatcher] = frozenset()

    @contextmanager
    def watching(self) -> Iterator[QueueWatcher]:
        # The set is replaced, never mutated, so that another thread can iterate over it.
        watcher = QueueWatcher()
        self._watchers |= {watcher}
        try:
            yield watcher
        finally:
            self._watchers -= {watcher}

    def hint(self, hint: QueueHint) -> None:
        if hint:
            for watcher in self._watchers:
                watcher.hint(hint)
