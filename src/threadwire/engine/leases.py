"""Renews the leases of a worker's runs, and reclaims the runs of workers that died.

A worker renews its leases well before they expire. A renewal also returns what other processes did to its runs: a
cancellation, or the loss of a run. If renewals keep failing, the worker gives up its runs before another worker may
claim them, so that two workers never execute runs of one thread at the same time.
"""

from collections.abc import Awaitable, Callable

import anyio
import structlog

from threadwire.core.records import QueueHint
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.engine.workers import Workers
from threadwire.errors import StorageError
from threadwire.storage.abc import WorkerStorage

logger = structlog.get_logger("threadwire.leases")

RENEWALS_PER_LEASE = 4
MAX_UNRENEWED = 0.6
"""A worker gives up its runs when this fraction of the lease has passed without a renewal, so that they have stopped
by the time their leases expire."""


class LeaseKeeper:
    def __init__(
        self,
        storage: WorkerStorage,
        worker: Workers,
        checkpoints: ThreadCheckpoints,
        clock: Clock,
        *,
        reclaims: bool = True,
        now: Callable[[], float] = anyio.current_time,
    ) -> None:
        """Without `reclaims`, another process recovers the runs of workers that died."""
        self._storage = storage
        self._worker = worker
        self._checkpoints = checkpoints
        self._clock = clock
        self._now = now
        self._reclaims = reclaims
        self._lease_seconds = worker.lease.milliseconds / 1000
        self.lost: int = 0
        """Number of attempts that have been recovered from dead workers since the start of the process."""
        self._last_renewal: float | None = None

    async def work(self) -> None:
        with self._storage.runs.watch() as hints:
            next_turn = self._now()
            while True:
                hint = await hints.wait(max(next_turn - self._now(), 0))
                if QueueHint.WORK in hint:
                    self._worker.hint()
                if is_turn := self._now() >= next_turn:
                    next_turn = self._now() + self._lease_seconds / RENEWALS_PER_LEASE
                if QueueHint.STOPS in hint or is_turn:
                    await self._reporting_errors(self.renew)
                if is_turn and self._reclaims:
                    await self._reporting_errors(self.reclaim)

    async def _reporting_errors(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StorageError as error:  # the next attempt may succeed
            logger.warning("lease_upkeep_failed", error=error.message)

    async def renew(self) -> None:
        """Renew the leases of the active runs and of holds. Stop the runs that were cancelled, and give up those that
        were lost."""
        attempts = self._worker.attempts()
        if not attempts and not self._worker.holds_threads:
            self._last_renewal = None
            return
        started = self._now()
        try:
            held = await self._storage.runs.renew(self._worker.lease)
        except StorageError:
            self._last_renewal = started if self._last_renewal is None else self._last_renewal
            if started - self._last_renewal > MAX_UNRENEWED * self._lease_seconds:
                for fence in attempts:
                    self._worker.lose(fence)
            raise
        self._last_renewal = started
        for fence in attempts:
            if fence not in held:
                self._worker.lose(fence)
            elif (action := held[fence]) is not None:
                self._worker.stop(fence.run_id, action)

    async def reclaim(self) -> None:
        """Recover the runs whose workers have died: they are charged with a crash, and resume or end."""
        for run in await self._storage.runs.reclaim(self._clock()):
            self.lost += 1
            logger.warning(
                "run_recovered",
                run_id=run.run_id,
                thread_id=run.thread_id,
                graph_id=run.graph_id,
                status=run.status,
                crashes=run.crashes,
            )
            if run.cancel == "rollback":
                await self._checkpoints.forget_run(run.run_id)
