"""Removing what is left of temporary threads, some time after they were discarded.

A client whose connection broke at the end of a run comes back for the rest, so the log outlives its thread for a
while. Whoever is still reading then is waited for.
"""

import anyio
import structlog

from threadwire.core.ids import ThreadId
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.clock import Clock
from threadwire.engine.follow import Followers
from threadwire.errors import StorageError
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.sweeping")

LOOK_EVERY = 10.0
BATCH = 100


class Sweeper:
    def __init__(
        self, storage: Storage, checkpointing: Checkpointing, followers: Followers, clock: Clock, *, keep: float
    ) -> None:
        self._storage = storage
        self._checkpointing = checkpointing
        self._followers = followers
        self._clock = clock
        self._keep = round(keep * 1000)

    async def work(self) -> None:
        while True:
            try:
                more = await self.sweep() == BATCH
            except StorageError as error:
                logger.error("temporary_threads_not_swept", error=error.message)
                more = False
            if not more:
                await anyio.sleep(min(LOOK_EVERY, max(self._keep / 1000, 1.0)))

    async def sweep(self) -> int:
        """Remove one batch of what is old enough; how many there were."""
        old = await self._storage.threads.discarded(
            before=self._clock() - self._keep, but_not=self._followers.watched(), limit=BATCH
        )
        # What the project's own checkpointer keeps goes first: a crash in between leaves what can be swept again.
        gone = [thread_id for thread_id in old if await self._forget(thread_id)]
        if gone:
            await self._storage.threads.sweep(gone)
        return len(gone)

    async def _forget(self, thread_id: ThreadId) -> bool:
        try:
            await self._checkpointing.forget_thread(thread_id)
        except StorageError as error:
            logger.error("temporary_thread_not_swept", thread_id=thread_id, error=error.message)
            return False
        return True
