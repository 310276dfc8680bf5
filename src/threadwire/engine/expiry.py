"""Threads that have outlived their ttl are deleted, or lose all but their newest checkpoints.

What is due is read from the database, so nothing is forgotten over a restart. A thread with a run under way is never
due; it is looked at again when its runs have ended, which updates it and so puts its expiry off.
"""

from dataclasses import dataclass

import anyio
import structlog

from threadwire.core.ids import ThreadId
from threadwire.core.records import Ttl
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.clock import Clock
from threadwire.engine.follow import Followers
from threadwire.errors import BadRequest, StorageError
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.expiry")


@dataclass(frozen=True, slots=True)
class Expiry:
    """How long threads live that do not say so themselves, and how often those that are due are looked for."""

    default_ttl: Ttl | None = None
    sweep_minutes: float = 5.0
    sweep_limit: int = 1000


class ExpirySweeper:
    def __init__(
        self, storage: Storage, checkpointing: Checkpointing, followers: Followers, expiry: Expiry, clock: Clock
    ) -> None:
        self._storage = storage
        self._checkpointing = checkpointing
        self._followers = followers
        self._expiry = expiry
        self._clock = clock

    async def work(self) -> None:
        """Sweep at once, and then again and again."""
        while True:
            try:
                if swept := await self.sweep():
                    logger.info("threads_expired", threads=swept)
            except (StorageError, BadRequest) as error:  # a full disk, for one: the next sweep may fare better
                logger.warning("sweep_failed", error=error.message)
            await anyio.sleep(self._expiry.sweep_minutes * 60)

    async def sweep(self) -> int:
        """Deal with what is due, up to the limit; how many threads that were."""
        swept = 0
        for thread_id in await self._storage.threads.due(self._clock(), self._expiry.sweep_limit):
            swept += await self._expire(thread_id)
        return swept

    async def _expire(self, thread_id: ThreadId) -> bool:
        self._checkpointing.require_deletion()
        done = await self._storage.threads.expire(thread_id, self._clock())
        if done == "delete":
            self._followers.forget_thread(thread_id)
            await self._checkpointing.forget_thread(thread_id)
        elif done == "keep_latest":
            self._checkpointing.require_pruning()
            await self._checkpointing.prune(thread_id)
        return done is not None
