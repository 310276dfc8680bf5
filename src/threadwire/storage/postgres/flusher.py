"""The queue of appends and checkpoints, which one flusher per process writes.

Queue. Callers on any thread add jobs to the queue of their thread, and the jobs of a thread take effect in the order of
the calls (2.2, 7.1). The jobs of different threads are independent.

Group commit. A flush writes the queues of all threads in one transaction. It locks the heads of the threads, checks the
fence of every job against the head (2.5), numbers the entries, and writes them as segments. Meanwhile the next flush
collects in the queues, so flushes grow with the load.

Other changes. Any other change of a thread, such as the end of a run, is a transaction of its own. It first executes
the jobs that are queued for the thread, so that it takes effect after them, without a further commit.

Failures. A job that is rejected (`Fenced`, `NotFound`) does not affect the others. If the connection is lost, the flush
is executed again once there is one; the queue is bounded, so appends have to wait. Any other failure rolls back the
flush, and each job is retried in a transaction of its own. If an attempt loses a job this way, its later jobs are
rejected too, or its log would be missing content without a gap in its numbers.
"""

import asyncio
import math
import threading
import time
from asyncio import shield, wrap_future
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from threadwire.core.entries import Fence
from threadwire.core.histogram import Histogram
from threadwire.core.ids import ThreadId
from threadwire.errors import Fenced, NotFound, StorageError, StorageFull, StorageUnavailable
from threadwire.storage.postgres.checkpoint_rows import CheckpointRows
from threadwire.storage.postgres.database import PATIENCE, Database, OutcomeUnknown
from threadwire.storage.postgres.transaction import Transaction
from threadwire.storage.postgres.write_jobs import JOB_OVERHEAD, AppendJob, Job
from threadwire.storage.segments import Encoded

T = TypeVar("T")

MAX_QUEUED = 5000
MAX_QUEUED_BYTES = 16 * 1024 * 1024
FLUSH_INTERVAL = 0.010
"""Seconds from the start of one flush to the next, if no caller waits."""
SHORT_FLUSH_INTERVAL = 0.004
"""The same after a flush of at most `FEW_ENTRIES` entries."""
FEW_ENTRIES = 50
IDLE_DELAY = 0.002
"""Seconds that an idle flusher collects entries before it flushes them, if no caller waits."""
_MAX_BROKEN = 10_000
_RETRY_DELAY = 0.2
_BROKEN = "An earlier entry of this attempt could not be stored."


class Flusher:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        # Everything below is changed only while `_lock` is held.
        self._queues: dict[ThreadId, deque[Job]] = {}
        self._busy: set[ThreadId] = set()
        """The threads whose jobs are being written."""
        self._queued = 0
        self._queued_bytes = 0
        self._broken: OrderedDict[Fence, Exception] = OrderedDict()
        self._room: Future[None] | None = None
        """Resolved after the next flush; created when a caller waits for room."""
        self._closed = False
        self._idle = True
        self._urgent = False
        # Used on the database thread only.
        self._wakeup = asyncio.Event()
        self._freed = asyncio.Event()
        self._last_start = 0.0
        self._last_size = 0
        self.append_seconds = Histogram()
        """From the first append of a job until it was published."""
        self.flush_seconds = Histogram()
        self._working = database.run_blocking(self._start())

    async def _start(self) -> "asyncio.Task[None]":
        return asyncio.ensure_future(self._work())

    def close(self) -> None:
        """Reject new jobs, and return when all queued ones are written. What cannot be written, because the database
        cannot be reached, is lost; it was never reported as durable."""
        with self._lock:
            self._closed = True
        self._wake(urgent=True)
        with suppress(asyncio.CancelledError):
            self._database.run_blocking(self._join())

    async def _join(self) -> None:
        await self._working

    # Called on any thread

    def append(self, thread_id: ThreadId, entries: list[Encoded], fence: Fence | None) -> AppendJob:
        """Enqueue entries. Consecutive appends of the same attempt are merged into one job."""
        weight = JOB_OVERHEAD
        for entry in entries:
            weight += len(entry[1])
        with self._lock:
            self._require(fence)
            queue = self._queues.get(thread_id)
            if queue and type(last := queue[-1]) is AppendJob and last.can_merge(fence, weight):
                last.entries += entries
                last.weight += weight
                self._queued += len(entries)
                self._queued_bytes += weight
                return last
            job = AppendJob(self, thread_id, entries, fence, weight)
            self._enqueue(job)
        self._wake(urgent=False)
        return job

    def enqueue(self, job: Job, *, urgent: bool = False) -> None:
        with self._lock:
            self._require(job.fence)
            self._enqueue(job)
        self._wake(urgent=urgent)

    def _enqueue(self, job: Job) -> None:
        self._queues.setdefault(job.thread_id, deque()).append(job)
        self._queued += job.size
        self._queued_bytes += job.weight

    def _require(self, fence: Fence | None) -> None:
        if self._closed:
            raise StorageError("The storage is closed.")
        if fence is not None and (loss := self._broken.get(fence)) is not None:
            raise Fenced() if isinstance(loss, Fenced) else _lost(loss)

    def loss(self, fence: Fence) -> StorageError | None:
        """A new exception, if a job of this attempt was lost."""
        with self._lock:
            loss = self._broken.get(fence)
        return None if loss is None or isinstance(loss, Fenced) else _lost(loss)

    def forget(self, fence: Fence) -> None:
        """Called when the attempt has ended."""
        with self._lock:
            self._broken.pop(fence, None)

    def future_of(self, job: Job) -> "Future[None] | None":
        """The future that is resolved when the job is done, or None if it is done. A caller waits for it, so the
        job is written immediately."""
        with self._lock:
            if job.done:
                return None
            if job.future is None:
                job.future = Future()
        self._wake(urgent=True)
        return job.future

    @property
    def queue_full(self) -> bool:
        return self._queued >= MAX_QUEUED or self._queued_bytes >= MAX_QUEUED_BYTES

    async def wait_for_room(self) -> None:
        while (future := self._next_room()) is not None:
            await shield(wrap_future(future))  # others may wait for it too

    def block_for_room(self) -> None:
        while (future := self._next_room()) is not None:
            future.result()

    def _next_room(self) -> "Future[None] | None":
        with self._lock:
            if not self.queue_full or self._closed:
                return None
            if self._room is None:
                self._room = Future()
            return self._room

    async def change(
        self, thread_id: ThreadId, change: Callable[[Transaction], Awaitable[T]], *, patience: float = PATIENCE
    ) -> T:
        """Execute a change of a thread after everything that is queued for it, and return its result once it is
        durable."""
        return await self._database.run(self.change_here(thread_id, change, patience=patience))

    def change_blocking(self, thread_id: ThreadId, change: Callable[[Transaction], Awaitable[T]]) -> T:
        return self._database.run_blocking(self.change_here(thread_id, change))

    async def flush(self) -> None:
        """Return once everything that is queued now is written or has failed."""
        await self._database.run(self._all_drained())

    def flush_blocking(self) -> None:
        self._database.run_blocking(self._all_drained())

    def _wake(self, *, urgent: bool) -> None:
        """Wake the flusher, unless it is going to check the queue anyway."""
        if self._idle or (urgent and not self._urgent) or self.queue_full:
            self._idle = False
            self._urgent = self._urgent or urgent
            with suppress(RuntimeError):  # the storage is closed
                self._database.loop.call_soon_threadsafe(self._wakeup.set)

    # Called on the database thread

    async def change_here(
        self, thread_id: ThreadId, change: Callable[[Transaction], Awaitable[T]], *, patience: float = PATIENCE
    ) -> T:
        jobs = await self._take(thread_id)
        try:
            result = await self._database.write_here(self._preceded(jobs, thread_id, change), patience=patience)
        except OutcomeUnknown as error:  # writing the jobs again might write them twice
            self._fail(jobs, error)
            self._finish(jobs, [thread_id])
            raise
        except BaseException as error:
            self._put_back(thread_id, jobs)
            if not jobs or isinstance(error, StorageUnavailable) or not isinstance(error, Exception):
                raise
        else:
            self._finish(jobs, [thread_id])
            return result
        # Something went wrong, perhaps with the jobs. Let the flusher handle those, then retry the change alone.
        await self._drained(thread_id)
        return await self.change_here(thread_id, change, patience=patience)

    async def _take(self, thread_id: ThreadId) -> list[Job]:
        """Take over the queue of a thread. The caller returns it with `_finish` or `_put_back`."""
        while True:
            with self._lock:
                if thread_id not in self._busy:
                    self._busy.add(thread_id)
                    return self._dequeue(thread_id)
            await self._next_freed()

    async def _drained(self, thread_id: ThreadId) -> None:
        while True:
            with self._lock:
                if thread_id not in self._busy and thread_id not in self._queues:
                    return
            self._wake(urgent=True)
            await self._next_freed()

    async def _all_drained(self) -> None:
        with self._lock:
            threads = self._queues.keys() | self._busy
        for thread_id in threads:
            await self._drained(thread_id)

    async def _next_freed(self) -> None:
        self._freed.clear()
        await self._freed.wait()

    def _dequeue(self, thread_id: ThreadId) -> list[Job]:
        return list(self._queues.pop(thread_id, ()))

    def _put_back(self, thread_id: ThreadId, jobs: list[Job]) -> None:
        with self._lock:
            if jobs:
                self._queues[thread_id] = deque([*jobs, *self._queues.get(thread_id, ())])
            self._busy.discard(thread_id)
        self._freed.set()
        self._wakeup.set()

    async def _work(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            await self._pause()
            jobs = self._take_all()
            if jobs:
                await self._flush(jobs)
                self._wakeup.set()
                continue
            with self._lock:
                self._idle = not self._queues
                if self._closed and not self._queues and not self._busy:
                    return
                waiting = bool(self._queues or self._busy) and self._closed
            if waiting:
                await asyncio.sleep(0.005)
                self._wakeup.set()

    async def _pause(self) -> None:
        """Collect jobs before the next flush, unless a caller waits."""
        since = time.monotonic() - self._last_start
        interval = SHORT_FLUSH_INTERVAL if self._last_size <= FEW_ENTRIES else FLUSH_INTERVAL
        until = time.monotonic() + max(IDLE_DELAY, interval - since)
        while not (self._urgent or self._closed or self.queue_full):
            left = until - time.monotonic()
            if left <= 0:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._wakeup.wait()
            self._wakeup.clear()

    def _take_all(self) -> list[Job]:
        with self._lock:
            self._urgent = False
            free = [thread_id for thread_id in self._queues if thread_id not in self._busy]
            self._busy.update(free)
            return [job for thread_id in free for job in self._dequeue(thread_id)]

    async def _flush(self, jobs: list[Job]) -> None:
        self._last_start = time.monotonic()
        self._last_size = sum(job.size for job in jobs)
        skipped: set[ThreadId] = set()
        try:
            await self._database.write_here(self._flush_of(jobs, skipped), patience=math.inf)
        except (OutcomeUnknown, StorageFull) as error:
            self._fail(jobs, error)
        except StorageUnavailable as error:
            if self._database.gave_up:
                self._fail(jobs, error)
            else:  # nothing was written; try again
                skipped = {job.thread_id for job in jobs}
                await asyncio.sleep(_RETRY_DELAY)
        except StorageError as error:
            if len(jobs) == 1:
                self._fail(jobs, error)
            else:
                await self._flush_one_by_one(jobs)
        self.flush_seconds.observe(time.monotonic() - self._last_start)
        done = [job for job in jobs if job.thread_id not in skipped]
        self._finish(done, {job.thread_id for job in done})
        for thread_id in skipped:
            self._put_back(thread_id, [job for job in jobs if job.thread_id == thread_id])

    async def _flush_one_by_one(self, jobs: list[Job]) -> None:
        for job in jobs:
            try:
                await self._database.write_here(self._preceded([job], job.thread_id, _nothing), patience=math.inf)
            except StorageError as error:
                self._fail([job], error)

    def _fail(self, jobs: list[Job], error: StorageError) -> None:
        for job in jobs:
            job.error = error
            self._break(job.fence, error)

    def _break(self, fence: Fence | None, error: Exception) -> None:
        if fence is not None:
            with self._lock:
                self._broken.setdefault(fence, error)
                while len(self._broken) > _MAX_BROKEN:
                    self._broken.popitem(last=False)

    def _finish(self, jobs: Sequence[Job], threads: "Sequence[ThreadId] | set[ThreadId]") -> None:
        """Resolve the jobs, and free their threads."""
        now = time.monotonic()
        for job in jobs:
            if isinstance(job.error, Fenced):
                self._break(job.fence, job.error)
            elif job.error is None:
                self.append_seconds.observe(now - job.since)
        with self._lock:
            waiting: list[Future[None]] = []
            for job in jobs:
                job.done = True
                self._queued -= job.size
                self._queued_bytes -= job.weight
                if job.future is not None:
                    waiting.append(job.future)
            if self._room is not None and not self.queue_full:
                waiting.append(self._room)
                self._room = None
            self._busy.difference_update(threads)
        for future in waiting:
            if not future.done():
                future.set_result(None)
        self._freed.set()

    def _flush_of(self, jobs: list[Job], skipped: set[ThreadId]) -> Callable[[Transaction], Awaitable[None]]:
        """Write the jobs, except those of threads that other transactions have locked, which are added to `skipped`.
        One thread that is locked for long must not delay the others."""

        async def flush(transaction: Transaction) -> None:
            skipped.clear()
            skipped.update(await transaction.lock_free({job.thread_id for job in jobs if job.needs_head}))
            await self._perform([job for job in jobs if job.thread_id not in skipped], transaction)

        return flush

    def _preceded(
        self, jobs: list[Job], thread_id: ThreadId, change: Callable[[Transaction], Awaitable[T]]
    ) -> Callable[[Transaction], Awaitable[T]]:
        async def both(transaction: Transaction) -> T:
            if jobs:
                await transaction.lock(thread_id)
                await self._perform(jobs, transaction)
            return await change(transaction)

        return both

    async def _perform(self, jobs: list[Job], transaction: Transaction) -> None:
        rows = CheckpointRows()
        for job in jobs:
            # The attempt may have lost a job after this one was queued. The error may be from an earlier execution.
            job.error = None if job.fence is None else self.loss(job.fence)
            if job.error is not None:
                continue
            try:
                job.perform(transaction, rows)
            except (Fenced, NotFound) as error:
                job.error = error
        await rows.store(transaction.db)


async def _nothing(transaction: Transaction) -> None:
    return None


def _lost(loss: Exception) -> StorageError:
    if isinstance(loss, StorageUnavailable):
        return type(loss)(loss.message)
    return StorageError(_BROKEN)
