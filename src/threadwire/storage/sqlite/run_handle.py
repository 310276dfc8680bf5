"""A worker's handle on a run: its writes carry the fence of its attempt."""

from collections.abc import Callable, Sequence

from threadwire.core.entries import Draft
from threadwire.core.ids import ThreadId
from threadwire.core.records import Durability, Ending, Run
from threadwire.storage.segments import Encoded, encode
from threadwire.storage.sqlite.checkpoints import SqliteCheckpoints, SqliteSaver
from threadwire.storage.sqlite.runs import end_run, return_to_queue
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.write_jobs import AppendJob
from threadwire.storage.sqlite.writer import Writer


class SqliteRunHandle:
    __slots__ = ("_checkpoints", "_clock", "_fence", "_last_append", "_saver", "_writer", "run")

    def __init__(
        self,
        run: Run,
        writer: Writer,
        checkpoints: SqliteCheckpoints,
        clock: Callable[[], int],
    ) -> None:
        self.run = run
        self._writer = writer
        self._checkpoints = checkpoints
        self._clock = clock
        self._fence = run.fence  # one object, because the writer merges appends with the same one
        self._last_append: AppendJob | None = None
        self._saver: SqliteSaver | None = None

    def append(self, drafts: Sequence[Draft]) -> AppendJob:
        return self.append_encoded(encode(drafts, self._clock))

    def append_encoded(self, entries: list[Encoded]) -> AppendJob:
        """Append entries that a worker process has encoded."""
        job = self._writer.append(self.run.thread_id, entries, self._fence)
        self._last_append = job
        return job

    @property
    def last_append(self) -> AppendJob | None:
        return self._last_append

    @property
    def queue_full(self) -> bool:
        return self._writer.queue_full

    async def wait_for_room(self) -> None:
        await self._writer.wait_for_room()

    def saver(self, durability: Durability = "async") -> SqliteSaver:
        self._saver = self._checkpoints.fenced_saver(self.run, self._fence, durability)
        return self._saver

    async def flush(self) -> None:
        self._writer.write_through()
        for job in (self._last_append, None if self._saver is None else self._saver.last_job):
            if job is not None and (self._writer.written < job.position or job.error is not None):
                await job.wait_or_raise()

    async def finish(self, ending: Ending, now: int, *, force: bool = False) -> bool:
        fence = self._fence

        def finish(transaction: Transaction, thread_id: ThreadId) -> None:
            loss = self._writer.loss(fence)
            if loss is not None and ending.status != "error" and not ending.rollback:
                raise loss
            end_run(transaction, thread_id, fence, ending, now, force=force)

        return await self._writer.do_and_release(fence, finish)

    async def release(self, now: int) -> bool:
        fence = self._fence

        def release(transaction: Transaction, thread_id: ThreadId) -> None:
            return_to_queue(transaction, thread_id, fence.run_id, "crashes", now)

        return await self._writer.do_and_release(fence, release)
