"""The single writer of the database: every change goes through one queue.

Queue. A change is a job (`Job`). Callers on any thread add jobs to the queue, and jobs are executed in queue order,
which is the order of the calls (2.2). Entries get their numbers when their job is executed, not when it is enqueued.
The result is the same, and no counter in memory can get ahead of the disk when a commit fails.

Group commit. The writer thread takes all queued jobs as one batch and executes them in one transaction. Meanwhile the
next batch collects in the queue, so batches grow with the load.

Write and fsync are two steps. A job is *written* once its transaction is committed to the write-ahead log: it survives
a crash of the process. It is *synced* once that file is fsynced: it survives a power failure. SQLite does both in
`COMMIT` with `synchronous=FULL`. We use `NORMAL` and call fsync ourselves before anything is acknowledged, because a
graph between two steps only has to wait for the write.

Publish. Only after the fsync are entries readable, waiters resolved and watchers woken (2.4). Entries that are written
but not yet synced are hidden from readers.

Write-through. A caller that cannot continue until its job is written may execute the queued jobs on its own thread,
usually that of its event loop. For a short queue this takes less time than handing the jobs to the writer thread and
being woken by it. The fsync is always left to the writer thread, where all waiters share it.

When to fsync. A job that a caller awaits is fsynced immediately, unless the caller defers the sync (`defer_sync`): a
client that streams the run it starts receives nothing before the run's first entries, so the acceptance of the run can
share their fsync, and a short run needs one fsync instead of two. Entries that no caller awaits are collected first:
for `IDLE_DELAY` seconds if the writer was idle, otherwise until `FLUSH_INTERVAL` seconds after the start of the last
flush, because an fsync takes as much interpreter time as fifty entries. If the last flush held nothing but a few
entries, `SHORT_IDLE_DELAY` and `SHORT_FLUSH_INTERVAL` apply instead: clients are reading tokens as a model produces
them and see every delay. In other cases the longer ones are better: a graph that also writes checkpoints needs the
interpreter for its next step, and a faster stream needs it for its next tokens.

Failures. There are three kinds:

- A job that must be rejected (`Fenced`, `NotFound`, …) raises *before* it changes anything. So a rejection needs no
  savepoint and does not affect the other jobs in the batch.
- Any other failure (a full disk, a bug) rolls back the whole batch. Each job is then retried in a transaction of its
  own, so that only the jobs that really cannot be executed fail. If an attempt loses a job this way, its fence is
  broken: its later jobs are rejected too, or its log would be missing content without a gap in its numbers. While the
  disk is full, only *essential* jobs are executed; see `disk_space.py`.
- A failed fsync is fatal. The operating system may have dropped the pages that it could not write, so a second fsync
  would succeed and mean nothing. Every job that is not synced fails and stays hidden. Which of them reached the disk is
  found at the next start, by the checksums in the write-ahead log.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar

import apsw
import structlog

from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import QueueHint
from threadwire.errors import Fenced, StorageError, StorageFailed, StorageFull, ThreadwireError, WriteTooLarge
from threadwire.storage.local_leases import LocalHolds, LocalLeases
from threadwire.storage.queue_hints import QueueHints
from threadwire.storage.segments import Encoded
from threadwire.storage.sqlite.disk_space import DiskSpace
from threadwire.storage.sqlite.id_keys import name_of
from threadwire.storage.sqlite.integrity import write_error
from threadwire.storage.sqlite.tail_cache import TailCache
from threadwire.storage.sqlite.transaction import Head, Transaction
from threadwire.storage.sqlite.waiters import Waiters, Watchers
from threadwire.storage.sqlite.write_ahead_log import WriteAheadLog
from threadwire.storage.sqlite.write_jobs import JOB_OVERHEAD, MAX_WRITE_THROUGH_BYTES, AppendJob, Job, Operation

T = TypeVar("T")

Batch: TypeAlias = tuple[list[Job], list[Transaction]]
"""Jobs that were written together, and the transactions they were written in."""

_log = structlog.get_logger(__name__)

MAX_QUEUED = 1000
MAX_QUEUED_BYTES = 16 * 1024 * 1024
FLUSH_INTERVAL = 0.010
"""Seconds from the start of one flush to the next, if no caller waits."""
SHORT_FLUSH_INTERVAL = 0.002
"""The same after a flush that held nothing but entries, and at most `FEW_ENTRIES`."""
FEW_ENTRIES = 50
IDLE_DELAY = 0.002
"""Seconds that an idle writer collects entries before it flushes them, if no caller waits."""
SHORT_IDLE_DELAY = 0.0005
"""The same after a flush that held nothing but a few entries."""
_MAX_BATCH = 2000
_MAX_HEADS = 20_000
_BROKEN = "An earlier entry of this attempt could not be stored."


class Writer:
    def __init__(
        self,
        db: apsw.Connection,
        wal: WriteAheadLog,
        tails: TailCache,
        watchers: Watchers,
        loop: asyncio.AbstractEventLoop,
        space: DiskSpace,
    ) -> None:
        self._db = db
        self._space = space
        self._tails = tails
        self._loop = loop
        self._heads: dict[ThreadId, Head] = {}
        self._db_lock = threading.Lock()
        """Held while a thread uses the database connection."""
        self._wal = wal
        self._lock = threading.Lock()
        self._wakeup = threading.Lock()
        self._wakeup.acquire()
        # Everything below is changed only while `_lock` is held.
        self._queue: deque[Job] = deque()
        self._queued = 0
        """Number of entries and other jobs in the queue."""
        self._unsynced_bytes = 0
        self._idle = False
        self._pausing = False
        self._urgent = False
        self._flush_started_at = 0.0
        self._flush_interval = FLUSH_INTERVAL
        self._idle_delay = IDLE_DELAY
        self._woken_at = 0.0
        self._closed = False
        self.fatal_error: StorageFailed | None = None
        self._last_position = 0
        self.synced = 0
        """Jobs up to this position are synced or have failed."""
        self.written = 0
        """Jobs up to this position are written, and maybe synced."""
        self.entries = 0
        """Number of published entries."""
        self.commits = 0
        """Number of published commits."""
        self._unsynced: list[Batch] = []
        self._hidden: dict[ThreadId, int] = {}
        """The first seq of each thread that is written but not yet published."""
        self._waiters = Waiters(watchers, loop)
        self.leases: LocalLeases[Fence] = LocalLeases()
        self.holds = LocalHolds()
        self.queue_hints = QueueHints()
        self._held_threads = _load_held_threads(db)
        self._large: set[Fence] = set()
        """The attempts with a large state, which is written again when they end."""
        self._broken: dict[Fence, StorageError] = {}
        """Why jobs of these attempts were lost."""
        self._failed = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="threadwire-sqlite-writer", daemon=True)
        self._thread.start()

    # Called on any thread

    def enqueue(self, job: Job, *, urgent: bool = False) -> None:
        """Enqueue a job. Raises `Fenced` if it names a fence that does not hold the thread."""
        with self._lock:
            self._require(job.fence, job.thread_id)
            self._enqueue(job, urgent=urgent)

    def append(self, thread_id: ThreadId, entries: list[Encoded], fence: Fence | None) -> AppendJob:
        """`enqueue` for entries. Consecutive appends of the same attempt are merged into one job."""
        weight = JOB_OVERHEAD
        for entry in entries:
            weight += len(entry[1])
        with self._lock:
            self._require(fence, thread_id)
            if self._space.full:
                raise self._space.error()
            queue = self._queue
            if queue and type(last := queue[-1]) is AppendJob and last.can_merge(fence, weight):
                last.entries += entries
                last.weight += weight
                self._unsynced_bytes += weight
                self._queued += len(entries)
                if self._pausing and self.queue_full:
                    self._end_pause()
                return last
            if weight >= MAX_WRITE_THROUGH_BYTES and fence is not None:
                self._large.add(fence)
            job = AppendJob(thread_id, entries, fence, weight)
            self._enqueue(job)
        return job

    def _require(self, fence: Fence | None, thread_id: ThreadId | None) -> None:
        if fence is not None:
            if self._held_threads.get(fence) != thread_id:
                raise Fenced()
            if self._broken and (loss := self.loss(fence)) is not None:
                raise loss

    async def do(self, operation: Callable[[Transaction], T], *, essential: bool = False) -> T:
        """Execute `operation` in queue order and return its result once it is synced."""
        job = Operation(operation, essential=essential)
        with self._lock:
            self._enqueue(job, wake=False)
            self._urgent = True
        self._write_now(job)
        await job.wait_or_raise()
        return job.result

    async def do_until_written(self, operation: Callable[[Transaction], T], *, defer_sync: bool) -> Operation[T]:
        """Execute `operation` in queue order and return its job once it is written. Awaiting the job's `wait_or_raise`
        then waits for the fsync, which is immediate unless `defer_sync` is set."""
        job = Operation(operation)
        with self._lock:
            self._enqueue(job, wake=False)
            self._urgent = self._urgent or not defer_sync
        self._write_now(job)
        if self.written < job.position or job.error is not None:
            await job.wait_or_raise()
        return job

    async def do_on_writer_thread(self, operation: Callable[[Transaction], T], *, essential: bool = False) -> T:
        """`do` for long operations: their weight makes sure that only the writer thread executes them."""
        job = Operation(operation, weight=MAX_WRITE_THROUGH_BYTES, essential=essential)
        self.enqueue(job, urgent=True)
        await job.wait_or_raise()
        return job.result

    async def do_and_release(self, fence: Fence, operation: Callable[[Transaction, ThreadId], None]) -> bool:
        """Execute the last operation of an attempt. From this call on, the attempt no longer holds its thread. Returns
        False if it did not hold the thread before."""
        with self._lock:
            thread_id = self._held_threads.get(fence)
            if thread_id is None:
                return False
            job = Operation(
                lambda transaction: operation(transaction, thread_id),
                thread_id=thread_id,
                fence=fence,
                weight=MAX_WRITE_THROUGH_BYTES if fence in self._large else 0,
                essential=True,
            )
            self._large.discard(fence)
            job.releases_thread = True
            self._enqueue(job, wake=False)
            self._urgent = True
            del self._held_threads[fence]
        self._write_now(job)
        await job.wait_finished()
        if isinstance(job.error, Fenced):
            return False
        if job.error is not None:
            raise job.error
        return True

    def _write_now(self, job: Job) -> None:
        """Write the job on this thread if possible; otherwise make the writer thread do it immediately."""
        self.write_through()
        if self.written < job.position:
            with self._lock:
                self._wake_now()

    def loss(self, fence: Fence) -> StorageError | None:
        """Return a new exception if a job of this attempt was lost. Its class says whether a retry may succeed."""
        match self._broken.get(fence):
            case None:
                return None
            case StorageFull():
                return self._space.error()
            case _:
                return StorageError(_BROKEN)

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the database now. Blocks the thread."""
        with self._db_lock:
            if self._space.full:
                self._wal.truncate()
            else:
                self._wal.checkpoint()

    def extend_log(self) -> None:
        """Preallocate the write-ahead log again, if it was truncated because there was no room. Blocks the thread."""
        if not self._space.full and self._wal.truncated:
            with self._db_lock:
                self._wal.extend()

    def drop_cached(self) -> None:
        """Forget the heads of all threads; those still in use are loaded again. If there are none, nothing was written
        since the last call, so drop the cached pages too. Blocks the thread."""
        with self._db_lock:
            if not self._heads:
                self._db.release_memory()
            self._heads.clear()

    @property
    def queue_full(self) -> bool:
        return self._queued >= MAX_QUEUED or self._unsynced_bytes >= MAX_QUEUED_BYTES

    async def wait_for_room(self) -> None:
        while self.queue_full:
            await self.wait_until_synced(self.synced + 1)

    def block_for_room(self) -> None:
        while self.queue_full:
            self.block_until_synced(self.synced + 1)

    async def wait_until_synced(self, position: int, *, defer_sync: bool = False) -> None:
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if self.synced >= position or self.fatal_error is not None:
                return
            self._waiters.add(position, future, defer_sync=defer_sync)
            if not defer_sync:
                self._end_pause()
        await future

    async def sync_barrier(self) -> None:
        """Return once everything that is readable now is synced.

        Call it after reading and before returning the result: a state must not become visible before the entries that
        led to it, nor before it would survive a power failure.
        """
        if self.synced < (position := self.written):
            await self.wait_until_synced(position)
        if self.fatal_error is not None:
            raise self._new_fatal_error()

    def sync_barrier_blocking(self) -> None:
        """`sync_barrier` for callers without an event loop. Blocks the thread."""
        if self.synced < (position := self.written):
            self.block_until_synced(position)
        if self.fatal_error is not None:
            raise self._new_fatal_error()

    def block_until_synced(self, position: int) -> None:
        gate = threading.Lock()
        gate.acquire()
        with self._lock:
            if self.synced >= position or self.fatal_error is not None:
                return
            self._waiters.add(position, gate)
            self._end_pause()
        gate.acquire()

    def write_through(self, timeout: float = 0.0) -> None:
        """Write the queued jobs on the caller's thread; the fsync is left to the writer thread.

        For a caller that cannot continue before its job is written. Handing the job to another thread and being woken
        by it would take longer than executing it. Does nothing if the queue is too large, or if the database is in use
        for longer than `timeout` seconds.
        """
        if self._unsynced_bytes > MAX_WRITE_THROUGH_BYTES or not self._db_lock.acquire(timeout=timeout):
            return
        try:
            with self._lock:
                batch = self._dequeue()
            if batch:
                self._write_or_requeue(batch)
        finally:
            self._db_lock.release()

    def held_fences(self) -> list[Fence]:
        """The attempts that hold a thread."""
        with self._lock:
            return [*self._held_threads]

    def last_visible_seq(self, thread_id: ThreadId) -> int | None:
        """The last published seq of the thread, or None if all its entries are published."""
        with self._lock:
            first = self._hidden.get(thread_id)
        return None if first is None else first - 1

    async def wait_for_failure(self) -> None:
        """Wait until the writer fails, and raise its fatal error."""
        await self._failed.wait()
        raise self._new_fatal_error()

    def close(self) -> None:
        """Reject new jobs, and return when all queued jobs are synced. Raises the fatal error if the writer fails
        meanwhile."""
        was_healthy = self.fatal_error is None
        with self._lock:
            self._closed = True
            self._wake_now()
        self._thread.join()
        if was_healthy and self.fatal_error is not None:
            raise self._new_fatal_error()

    def _new_fatal_error(self) -> StorageFailed:
        """Return a new exception each time, because raising one adds to its traceback."""
        assert self.fatal_error is not None
        return StorageFailed(self.fatal_error.message)

    def _enqueue(self, job: Job, *, urgent: bool = False, wake: bool = True) -> None:
        if self._closed:
            raise StorageError("The storage is closed.") if self.fatal_error is None else self._new_fatal_error()
        if self._space.full and not job.essential:
            raise self._space.error()
        job._writer = self
        self._last_position += 1
        job.position = self._last_position
        self._unsynced_bytes += job.weight
        self._queued += job.size
        self._queue.append(job)
        if not wake:
            return
        if urgent:
            self._urgent = True
        if self._idle:
            self._wake_if_idle()
        elif self._pausing and (urgent or self.queue_full):
            self._end_pause()

    def _wake_if_idle(self) -> None:
        """Wake the writer thread if it has nothing to do."""
        if self._idle:
            self._idle = False
            self._woken_at = time.monotonic()
            self._wakeup.release()

    def _end_pause(self) -> None:
        """Wake the writer thread if it is collecting jobs."""
        if self._pausing:
            self._pausing = False
            self._wakeup.release()

    def _wake_now(self) -> None:
        """Make the writer thread flush the queue immediately, or right after the current flush."""
        self._urgent = True
        self._wake_if_idle()
        self._end_pause()

    # Called on the writer thread

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                self._flush()
            with self._db_lock:  # wait for a caller that is still in `write_through`
                pass
            if self._queue or self._unsynced:
                self._flush()
        except BaseException as error:
            self._fail_permanently(error)

    def _wait_for_work(self) -> bool:
        """Sleep until a flush is due. Returns False once the writer is closed and the queue is empty."""
        while True:
            with self._lock:
                pause = self._remaining_pause()
                if self._queue or self._unsynced:
                    if pause <= 0:
                        return True
                    self._pausing = True
                elif self._closed:
                    return False
                elif pause > 0:  # jobs that arrive meanwhile have to wait anyway, so they need not wake this thread
                    self._pausing = True
                else:
                    pause = -1.0
                    self._idle = True
            if not self._wakeup.acquire(timeout=pause):
                with self._lock:
                    if self._pausing:
                        self._pausing = False
                    else:  # woken just after the timeout: consume the wakeup
                        self._wakeup.acquire()

    def _flush(self) -> None:
        with self._db_lock:
            with self._lock:
                self._flush_started_at = time.monotonic()
                self._urgent = False
                batch = self._dequeue()
            if batch:
                try:
                    self._mark_written(batch, self._commit(batch))
                except BaseException:
                    self._requeue(batch)
                    raise
        with self._lock:
            written = self._unsynced[:]
            self._set_pace(written)
        self._wal.sync()  # without the database lock, so that callers can write meanwhile
        if written:
            self._acknowledge(written)
        if self._wal.needs_checkpoint:
            with self._db_lock:
                self._wal.checkpoint()

    def _remaining_pause(self) -> float:
        if self._urgent or self._waiters.has_urgent or self._closed or self.queue_full:
            return 0.0
        return max(self._flush_started_at + self._flush_interval, self._woken_at + self._idle_delay) - time.monotonic()

    def _set_pace(self, flushed: list[Batch]) -> None:
        if _few_entries(flushed):
            self._flush_interval, self._idle_delay = SHORT_FLUSH_INTERVAL, SHORT_IDLE_DELAY
        else:
            self._flush_interval, self._idle_delay = FLUSH_INTERVAL, IDLE_DELAY

    def _dequeue(self) -> list[Job]:
        if len(self._queue) > _MAX_BATCH:
            batch = [self._queue.popleft() for _ in range(_MAX_BATCH)]
            self._queued -= sum(job.size for job in batch)
            return batch
        batch = list(self._queue)
        self._queue.clear()
        self._queued = 0
        return batch

    # Called with the database lock held

    def _perform(self, batch: list[Job]) -> Transaction:
        if len(self._heads) > _MAX_HEADS:
            self._heads.clear()
        transaction = Transaction(self._db, self._heads, self.leases)
        for job in batch:
            if job.fence in self._broken and not job.releases_thread:
                job.error = self.loss(job.fence)
                continue
            try:
                job.perform(transaction)
            except ThreadwireError as rejection:
                job.error = rejection
        transaction.write()
        return transaction

    def _write_or_requeue(self, batch: list[Job]) -> None:
        """Write a batch. If that fails, the writer thread retries it and finds out which job failed."""
        try:
            transaction = self._perform(batch)
            transaction.commit()
        except BaseException as error:
            self._requeue(batch)
            self._roll_back(batch)
            if not isinstance(error, Exception):  # such as KeyboardInterrupt: for this thread, not for the batch
                raise
        else:
            self._mark_written(batch, [transaction])

    def _requeue(self, batch: list[Job]) -> None:
        with self._lock:
            self._queue.extendleft(reversed(batch))
            self._queued += sum(job.size for job in batch)
            self._wake_now()

    def _mark_written(self, batch: list[Job], transactions: list[Transaction]) -> None:
        with self._lock:
            self.written = batch[-1].position
            self._unsynced.append((batch, transactions))
            for transaction in transactions:
                self._hide(transaction)
                for fence in transaction.released:
                    self._held_threads.pop(fence, None)
                    self._broken.pop(fence, None)
                    self.leases.end(fence)
                self._held_threads.update(transaction.acquired)
            self._wake_if_idle()

    def _hide(self, transaction: Transaction) -> None:
        for segment in transaction.segments:
            self._hidden.setdefault(segment.thread_id, segment.first)

    def _roll_back(self, batch: list[Job]) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._heads.clear()
        for job in batch:
            job.error = None

    def _commit(self, batch: list[Job]) -> list[Transaction]:
        """Write a batch and return its transactions. Every job that could not be written has its `error` set."""
        try:
            transaction = self._perform(batch)
            transaction.commit()
        except Exception as error:
            no_room = self._space.is_cause(error, self._db.system_errno)
            self._roll_back(batch)
            if no_room and self._space.note_failed_write(self._wal.truncate):
                return self._commit_essential(batch)
            if len(batch) == 1:
                self._fail(batch[0], self._failure(error, no_room), error)
                return []
            return [transaction for job in batch for transaction in self._commit([job])]
        return [transaction]

    def _failure(self, error: Exception, no_room: bool) -> StorageError:
        if not no_room:
            return write_error(error, self._db.filename)
        return self._space.error() if self._space.full else WriteTooLarge()

    def _commit_essential(self, batch: list[Job]) -> list[Transaction]:
        """Write those jobs of a batch that are executed even on a full disk, and fail the others."""
        for job in batch:
            if not job.essential:
                self._fail(job, self._space.error(), None)
        return [transaction for job in batch if job.essential for transaction in self._commit([job])]

    def _fail(self, job: Job, failure: StorageError, cause: Exception | None) -> None:
        job.error = failure
        job.error.__cause__ = cause
        if job.fence is not None and not job.releases_thread:
            self._broken[job.fence] = failure

    def _add_to_tails(self, written: list[Batch]) -> set[ThreadId]:
        """Make synced entries readable. Returns the threads that have grown or were deleted."""
        changed: set[ThreadId] = set()
        for transaction in (each for _, transactions in written for each in transactions):
            for thread_id in transaction.forgotten:
                self._tails.forget(thread_id)
            if transaction.segments:
                self._tails.add(transaction.segments)
                self.entries += sum(len(segment.entries) for segment in transaction.segments)
            self.commits += 1
            changed.update(transaction.forgotten, (segment.thread_id for segment in transaction.segments))
        return changed

    def _acknowledge(self, written: list[Batch]) -> None:
        jobs = [job for batch, _ in written for job in batch]
        weight = sum(job.weight for job in jobs)
        grown = self._add_to_tails(written)
        with self._lock:
            for job in jobs:
                if job.releases_thread and job.error is not None and not isinstance(job.error, Fenced):
                    # The attempt could not be ended, so it still holds its thread.
                    assert job.fence is not None
                    assert job.thread_id is not None
                    self._held_threads[job.fence] = job.thread_id
            self.synced = jobs[-1].position
            self._unsynced_bytes -= weight
            del self._unsynced[: len(written)]
            self._hidden.clear()
            for _, transactions in self._unsynced:
                for transaction in transactions:
                    self._hide(transaction)
            ready = self._waiters.pop_ready(self.synced)
        self._waiters.notify(ready, grown)
        hints = QueueHint.NOTHING
        for _, transactions in written:
            for transaction in transactions:
                hints |= transaction.hints
        self.queue_hints.hint(hints)

    def _fail_permanently(self, error: BaseException) -> None:
        """Fail all unsynced jobs and resolve all waiters. Unsynced entries stay hidden."""
        expected = error if isinstance(error, StorageError) else None
        reason = expected.message if expected else repr(error)
        with self._db_lock, self._lock:  # a caller may still be in `write_through`
            message = f"The storage has failed. {reason}. The server is exiting and must be restarted."
            self.fatal_error = StorageFailed(message)
            self._closed = True
            self._wal.disable_checkpoints()
            for job in [*(job for jobs, _ in self._unsynced for job in jobs), *self._queue]:
                job.error = self._new_fatal_error()
            self._unsynced.clear()
            self._queue.clear()
            self._queued = self._unsynced_bytes = 0
            self.synced = self._last_position
            waiting = self._waiters.pop_all()
        self._waiters.notify(waiting)
        with suppress(RuntimeError):  # the loop is closed, so there is no task left to notify
            self._loop.call_soon_threadsafe(self._failed.set)
        _log.critical("storage_failed", error=reason, exc_info=None if expected else error)


def _few_entries(batches: list[Batch]) -> bool:
    jobs = [job for batch, _ in batches for job in batch]
    return all(type(job) is AppendJob for job in jobs) and sum(job.size for job in jobs) <= FEW_ENTRIES


def _load_held_threads(db: apsw.Connection) -> dict[Fence, ThreadId]:
    """The attempts that hold a thread when the storage is opened: those of a crashed process, until they are
    recovered."""
    rows = db.execute("SELECT run, attempt, thread FROM runs WHERE status = 'running'")
    return {Fence(RunId(name_of(run)), attempt): ThreadId(name_of(thread)) for run, attempt, thread in rows}
