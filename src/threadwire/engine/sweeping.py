"""Removing what is left of temporary threads, some time after they were discarded.

A client whose connection broke at the end of a run comes back for the rest, so the log outlives its thread for a
while. Whoever is still reading then is waited for.
"""

import anyio

from threadwire.engine.clock import Clock
from threadwire.engine.follow import Followers
from threadwire.storage.abc import Storage

LOOK_EVERY = 10.0
BATCH = 100


class Sweeper:
    def __init__(self, storage: Storage, followers: Followers, clock: Clock, *, keep: float) -> None:
        self._storage = storage
        self._followers = followers
        self._clock = clock
        self._keep = round(keep * 1000)

    async def work(self) -> None:
        while True:
            if await self.sweep() < BATCH:
                await anyio.sleep(min(LOOK_EVERY, max(self._keep / 1000, 1.0)))

    async def sweep(self) -> int:
        """Remove one batch of what is old enough; how many there were."""
        return await self._storage.threads.sweep(
            ended_before=self._clock() - self._keep, but_not=self._followers.watched(), limit=BATCH
        )
