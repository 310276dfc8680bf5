"""Deleting the remaining data of temporary threads, some time after they were discarded.

A client whose connection broke near the end of a run reconnects for the rest, so the log outlives its thread for a
while. A log that is still being read is left until its readers are done.
"""

import anyio
import structlog

from threadwire.core.ids import ThreadId
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.engine.followers import Followers
from threadwire.errors import StorageError
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.sweeping")

POLL_INTERVAL = 10.0
BATCH = 100


class TemporaryThreadSweeper:
    def __init__(
        self, storage: Storage, checkpoints: ThreadCheckpoints, followers: Followers, clock: Clock, *, keep: float
    ) -> None:
        self._storage = storage
        self._checkpoints = checkpoints
        self._followers = followers
        self._clock = clock
        self._keep = round(keep * 1000)

    async def work(self) -> None:
        while True:
            try:
                more = await self.sweep() == BATCH
            except StorageError as error:
                logger.error("temporary_thread_sweep_failed", error=error.message)
                more = False
            if not more:
                await anyio.sleep(min(POLL_INTERVAL, max(self._keep / 1000, 1.0)))

    async def sweep(self) -> int:
        """Delete one batch of threads discarded long enough ago. Return their number."""
        old = await self._storage.threads.discarded(
            before=self._clock() - self._keep, exclude=self._followers.followed_threads(), limit=BATCH
        )
        # A custom checkpointer first: after a crash between the two steps, the sweep can be repeated.
        deleted = [thread_id for thread_id in old if await self._delete_checkpoints(thread_id)]
        if deleted:
            await self._storage.threads.sweep(deleted)
        return len(deleted)

    async def _delete_checkpoints(self, thread_id: ThreadId) -> bool:
        try:
            await self._checkpoints.forget_thread(thread_id)
        except StorageError as error:
            logger.error("temporary_thread_deletion_failed", thread_id=thread_id, error=error.message)
            return False
        return True
