"""Expired threads are deleted, or pruned to their newest checkpoints, depending on their TTL's strategy.

Due threads are read from the database, so a restart loses none. A thread with an active run is never due. The end of a
run updates the thread, which postpones its expiry.
"""

from dataclasses import dataclass

import anyio
import structlog

from threadwire.core.ids import ThreadId
from threadwire.core.records import ExpiryStrategy, Ttl
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.engine.followers import Followers
from threadwire.engine.thread_deletions import ThreadDeletions
from threadwire.errors import BadRequest, StorageError
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.expiry")


@dataclass(frozen=True, slots=True)
class Expiry:
    """The default TTL of threads, how often expired threads are swept, and how many at a time."""

    default_ttl: Ttl | None = None
    sweep_minutes: float = 5.0
    sweep_limit: int = 1000


class ExpirySweeper:
    def __init__(
        self,
        storage: Storage,
        checkpoints: ThreadCheckpoints,
        followers: Followers,
        deletions: ThreadDeletions,
        expiry: Expiry,
        clock: Clock,
    ) -> None:
        self._storage = storage
        self._checkpoints = checkpoints
        self._followers = followers
        self._deletions = deletions
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
        """Expire due threads, up to the limit. Return their number. Raises `BadRequest`, after all others have expired,
        if a custom checkpointer cannot do what the strategy of a thread needs."""
        swept = 0
        unsupported: BadRequest | None = None
        for thread_id in await self._storage.threads.due(self._clock(), self._expiry.sweep_limit):
            try:
                swept += await self._expire(thread_id)
            except BadRequest as error:
                unsupported = error
        if unsupported is not None:
            raise unsupported
        return swept

    async def _expire(self, thread_id: ThreadId) -> bool:
        thread = await self._storage.threads.get(thread_id, with_state=False)
        if thread is None or thread.ttl is None:
            return False
        self._require(thread.ttl.strategy)
        strategy = await self._storage.threads.expire(thread_id, self._clock())
        if strategy == "delete":
            self._followers.forget_thread(thread_id)
            await self._checkpoints.forget_thread(thread_id)
            await self._deletions.report(thread_id)
        elif strategy == "keep_latest":
            await self._checkpoints.prune(thread_id)
        return strategy is not None

    def _require(self, strategy: ExpiryStrategy) -> None:
        """Raise `BadRequest` if a custom checkpointer cannot do what the strategy needs, before anything changes."""
        if strategy == "delete":
            self._checkpoints.require_deletion()
        else:
            self._checkpoints.require_pruning()
