"""The threads that a worker holds, so that no worker starts a run on them (spec 8.6)."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from threadwire.core.ids import ThreadId
from threadwire.core.records import Lease
from threadwire.storage.abc import WorkerStorage


class ThreadHolds:
    """A thread may be held for several reasons at once. The storage holds it until the last one ends."""

    def __init__(self, storage: WorkerStorage, lease: Lease) -> None:
        self._storage = storage
        self._lease = lease
        self._reasons: Counter[ThreadId] = Counter()
        self._lock = anyio.Lock()

    def __contains__(self, thread_id: ThreadId) -> bool:
        return thread_id in self._reasons

    def __bool__(self) -> bool:
        return bool(self._reasons)

    async def hold(self, thread_id: ThreadId) -> None:
        async with self._lock:  # a hold that ends meanwhile must not overtake this one
            if not self._reasons[thread_id]:
                await self._storage.threads.hold(thread_id, self._lease)
            self._reasons[thread_id] += 1

    async def end(self, thread_id: ThreadId) -> None:
        async with self._lock:
            self._reasons[thread_id] -= 1
            if not self._reasons[thread_id]:
                del self._reasons[thread_id]
                await self._storage.threads.end_hold(thread_id, self._lease.worker)

    @asynccontextmanager
    async def holding(self, thread_id: ThreadId) -> AsyncIterator[None]:
        """Keep every worker from starting a run on this thread inside the block. A run that is already being accepted
        may still start. So check inside the block whether the thread is free. The storage accepts such a run before it
        executes that check, so the check sees it."""
        await self.hold(thread_id)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self.end(thread_id)
