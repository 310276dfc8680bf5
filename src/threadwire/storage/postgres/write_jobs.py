"""The jobs in the flusher's queue; see `flusher.py`."""

import time
from abc import ABC, abstractmethod
from asyncio import shield, wrap_future
from concurrent.futures import Future
from typing import TYPE_CHECKING

from threadwire.core.entries import Fence
from threadwire.core.ids import ThreadId
from threadwire.storage.postgres.checkpoint_rows import CheckpointRows
from threadwire.storage.postgres.transaction import Transaction
from threadwire.storage.segments import MAX_ENTRIES, Encoded

if TYPE_CHECKING:
    from threadwire.storage.postgres.flusher import Flusher

MAX_MERGED_BYTES = 256 * 1024
JOB_OVERHEAD = 200
"""Bytes that are added to the weight of every job."""


class Job(ABC):
    """A change of one thread, executed in queue order. It is also the `Commit` that its caller may wait for."""

    __slots__ = ("_flusher", "done", "error", "fence", "future", "since", "thread_id", "weight")

    def __init__(self, flusher: "Flusher", thread_id: ThreadId, fence: Fence | None, weight: int) -> None:
        self._flusher = flusher
        self.thread_id = thread_id
        self.fence = fence
        self.weight = weight
        self.since = time.monotonic()
        self.error: Exception | None = None
        self.done = False
        self.future: Future[None] | None = None
        """Created when a caller waits."""

    @property
    def size(self) -> int:
        """What it adds to the length of the queue: its number of entries, or 1."""
        return 1

    @property
    @abstractmethod
    def needs_head(self) -> bool:
        """Whether the head of its thread must be locked."""

    @abstractmethod
    def perform(self, transaction: Transaction, rows: CheckpointRows) -> None:
        """Execute the job, once the head is locked. A rejection must be raised before anything is changed."""

    async def wait(self) -> None:
        """Raise the error of the job: `Fenced`, `NotFound` or `StorageError`."""
        if not self.done and (future := self._flusher.future_of(self)) is not None:
            await shield(wrap_future(future))  # others may wait for it too
        self._raise_error()

    def block(self, timeout: float | None = None) -> None:
        """`wait` for callers without an event loop. Blocks the thread, and raises `TimeoutError` after `timeout`
        seconds."""
        if not self.done and (future := self._flusher.future_of(self)) is not None:
            future.result(timeout)
        self._raise_error()

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error


class AppendJob(Job):
    __slots__ = ("entries",)

    def __init__(
        self, flusher: "Flusher", thread_id: ThreadId, entries: list[Encoded], fence: Fence | None, weight: int
    ) -> None:
        super().__init__(flusher, thread_id, fence, weight)
        self.entries = entries

    @property
    def size(self) -> int:
        return len(self.entries)

    @property
    def needs_head(self) -> bool:
        return True

    def can_merge(self, fence: Fence | None, weight: int) -> bool:
        """Whether the next entries of the same attempt may be merged into this job."""
        return (
            fence is not None
            and self.fence == fence
            and self.weight + weight <= MAX_MERGED_BYTES
            and len(self.entries) < MAX_ENTRIES
        )

    def perform(self, transaction: Transaction, rows: CheckpointRows) -> None:
        transaction.require(self.thread_id, self.fence)
        if self.fence is None:
            transaction.append(self.thread_id, self.entries)
        else:
            transaction.append(self.thread_id, self.entries, self.fence.run_id, self.fence.attempt)


class PutJob(Job):
    """Checkpoints and writes, put by a saver."""

    __slots__ = ("rows",)

    def __init__(
        self, flusher: "Flusher", thread_id: ThreadId, rows: CheckpointRows, fence: Fence | None, weight: int
    ) -> None:
        super().__init__(flusher, thread_id, fence, JOB_OVERHEAD + weight)
        self.rows = rows

    @property
    def needs_head(self) -> bool:
        return self.fence is not None

    def perform(self, transaction: Transaction, rows: CheckpointRows) -> None:
        if self.fence is not None:
            transaction.require(self.thread_id, self.fence)
        rows.add(self.rows)
