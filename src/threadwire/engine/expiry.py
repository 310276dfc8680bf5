"""Expired threads are deleted, or pruned to their newest checkpoints, depending on their TTL's strategy.

Due threads are read from the database, so a restart loses none. A thread with an active run is never due. The end of a
run updates the thread, which postpones its expiry.
"""

from dataclasses import dataclass

import anyio
import structlog

from threadwire.core.ids import ThreadId
from threadwire.core.records import Ttl
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.engine.follow import Followers
from threadwire.errors import BadRequest, StorageError
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.expiry")


@dataclass(frozen=True, slots=True)
class Expiry:
    """The TTL of threads that have none of their own, and how often and how many expired threads are swept."""

    default_ttl: Ttl | None = None
    sweep_minutes: float = 5.0
    sweep_limit: int = 1000


class ExpirySweeper:
    def __init__(
        self, storage: Storage, checkpoints: ThreadCheckpoints, followers: Followers, expiry: Expiry, clock: Clock
    ) -> None:
        self._storage = storage
        self._checkpoints = checkpoints
        self._followers = followers
        self._expiry = expiry
        self._clock = clock

    async def work(self) -> None:
        """Sweep immediately, then periodically."""
        while True:
            try:
                if swept := await self.sweep():
                    logger.info("threads_expired", count=swept)
            except (StorageError, BadRequest) as error:  # for example a full disk: the next sweep may succeed
                logger.warning("thread_sweep_failed", error=error.message)
            await anyio.sleep(self._expiry.sweep_minutes * 60)

    async def sweep(self) -> int:
        """Expire due threads, up to the limit. Return their number."""
        swept = 0
        for thread_id in await self._storage.threads.due(self._clock(), self._expiry.sweep_limit):
            swept += await self._expire(thread_id)
        return swept

    async def _expire(self, thread_id: ThreadId) -> bool:
        self._checkpoints.require_deletion()
        strategy = await self._storage.threads.expire(thread_id, self._clock())
        if strategy == "delete":
            self._followers.forget_thread(thread_id)
            await self._checkpoints.forget_thread(thread_id)
        elif strategy == "keep_latest":
            self._checkpoints.require_pruning()
            await self._checkpoints.prune(thread_id)
        return strategy is not None
