"""A worker's handle on a run: its writes carry the fence of its attempt."""

from collections.abc import Awaitable, Callable, Sequence

from threadwire.core.entries import Draft
from threadwire.core.records import Durability, Ending, Run
from threadwire.errors import Fenced
from threadwire.storage.postgres.checkpoints import PostgresCheckpoints, PostgresSaver
from threadwire.storage.postgres.flusher import Flusher
from threadwire.storage.postgres.run_endings import end_run, return_to_queue
from threadwire.storage.postgres.transaction import Transaction
from threadwire.storage.postgres.write_jobs import AppendJob
from threadwire.storage.segments import encode

_PATIENCE = 30.0
"""Seconds for which the end of a run waits for a lost connection: the run would have to be executed again."""


class PostgresRunHandle:
    __slots__ = ("_checkpoints", "_clock", "_fence", "_flusher", "_last_append", "_saver", "run")

    def __init__(self, run: Run, flusher: Flusher, checkpoints: PostgresCheckpoints, clock: Callable[[], int]) -> None:
        self.run = run
        self._flusher = flusher
        self._checkpoints = checkpoints
        self._clock = clock
        self._fence = run.fence
        self._last_append: AppendJob | None = None
        self._saver: PostgresSaver | None = None

    def append(self, drafts: Sequence[Draft]) -> AppendJob:
        job = self._flusher.append(self.run.thread_id, encode(drafts, self._clock), self._fence)
        self._last_append = job
        return job

    @property
    def queue_full(self) -> bool:
        return self._flusher.queue_full

    async def wait_for_room(self) -> None:
        await self._flusher.wait_for_room()

    def saver(self, durability: Durability = "async") -> PostgresSaver:
        self._saver = self._checkpoints.fenced_saver(self.run, self._fence, durability)
        return self._saver

    async def flush(self) -> None:
        for job in (self._last_append, None if self._saver is None else self._saver.last_job):
            if job is not None:
                await job.wait()

    async def finish(self, ending: Ending, now: int, *, force: bool = False) -> bool:
        async def finish(transaction: Transaction) -> None:
            loss = self._flusher.loss(self._fence)
            if loss is not None and ending.status != "error" and not ending.rollback:
                raise loss
            await end_run(transaction, self.run.thread_id, self._fence, ending, now, force=force)

        return await self._end(finish)

    async def release(self, now: int) -> bool:
        async def release(transaction: Transaction) -> None:
            await return_to_queue(transaction, self.run.thread_id, self.run.run_id, now)

        return await self._end(release)

    async def _end(self, change: Callable[[Transaction], Awaitable[None]]) -> bool:
        """Execute the last change of the attempt. Returns False if the attempt does not hold the thread."""

        async def end(transaction: Transaction) -> None:
            await transaction.lock(self.run.thread_id)
            transaction.require(self.run.thread_id, self._fence)
            await change(transaction)

        try:
            await self._flusher.change(self.run.thread_id, end, patience=_PATIENCE)
        except Fenced:
            return False
        self._flusher.forget(self._fence)
        return True
