"""The jobs in the writer's queue; see `writer.py`."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from threadwire.core.entries import Fence
from threadwire.core.ids import ThreadId
from threadwire.errors import Fenced, StorageError, ThreadwireError
from threadwire.storage.segments import MAX_ENTRIES, Encoded
from threadwire.storage.sqlite.transaction import Transaction

if TYPE_CHECKING:
    from threadwire.storage.sqlite.writer import Writer

T = TypeVar("T")

MAX_WRITE_THROUGH_BYTES = 256 * 1024
"""The largest queue, in bytes, that may be written on a caller's thread."""
JOB_OVERHEAD = 200
"""Bytes that are added to the weight of every job."""


class Job(ABC):
    """A change to the database, executed in queue order. It is also the `Commit` that its caller may wait for."""

    __slots__ = ("_writer", "error", "fence", "position", "releases_thread", "thread_id", "weight")

    _writer: "Writer"
    position: int
    essential: bool
    """Whether it is executed even if the disk is full; see `disk_space.py`."""

    def __init__(self, thread_id: ThreadId | None, fence: Fence | None, weight: int) -> None:
        self.thread_id = thread_id
        self.fence = fence
        self.weight = weight
        self.releases_thread = False
        self.error: Exception | None = None

    @property
    def size(self) -> int:
        """What it adds to the length of the queue: its number of entries, or 1."""
        return 1

    @abstractmethod
    def perform(self, transaction: Transaction) -> None:
        """Execute the job. A rejection must be raised before anything is changed."""

    @property
    def done(self) -> bool:
        return self._writer.synced >= self.position

    async def wait(self) -> None:
        await self.wait_finished()
        if self.error is not None:
            raise _not_stored(self.error)

    async def wait_or_raise(self, *, defer_sync: bool = False) -> None:
        """Like `wait`, but raises the original error: `Fenced`, `NotFound`, …"""
        await self.wait_finished(defer_sync=defer_sync)
        if self.error is not None:
            raise self.error

    def block_or_raise(self) -> None:
        """`wait_or_raise` for callers without an event loop. Blocks the thread."""
        if not self.done:
            self._writer.block_until_synced(self.position)
        if self.error is not None:
            raise self.error

    async def wait_finished(self, *, defer_sync: bool = False) -> None:
        """Return once the job is synced or has failed. Never raises the job's error."""
        if not self.done:
            await self._writer.wait_until_synced(self.position, defer_sync=defer_sync)


def _not_stored(error: Exception) -> ThreadwireError:
    if isinstance(error, (StorageError, Fenced)):
        return error
    not_stored = StorageError(f"The entries were not stored: {error.args[0] if error.args else error.__doc__}")
    not_stored.__cause__ = error
    return not_stored


class DeferredCommit:
    """The commit of a job that may wait for the next fsync instead of causing one."""

    __slots__ = ("_defer_sync", "_job")

    def __init__(self, job: Job, *, defer_sync: bool) -> None:
        self._job = job
        self._defer_sync = defer_sync

    async def wait(self) -> None:
        await self._job.wait_or_raise(defer_sync=self._defer_sync)


class AppendJob(Job):
    __slots__ = ("entries",)

    essential = False

    def __init__(self, thread_id: ThreadId, entries: list[Encoded], fence: Fence | None, weight: int) -> None:
        # Does what `super().__init__` would do without the cost of the call, as there may be one job per token.
        self.thread_id = thread_id
        self.entries = entries
        self.fence = fence
        self.weight = weight
        self.releases_thread = False
        self.error = None

    @property
    def size(self) -> int:
        return len(self.entries)

    def can_merge(self, fence: Fence | None, weight: int) -> bool:
        """Whether the next entries of the same attempt may be merged into this job."""
        return (
            self.fence is fence
            and fence is not None
            and self.weight + weight <= MAX_WRITE_THROUGH_BYTES
            and len(self.entries) < MAX_ENTRIES
        )

    def perform(self, transaction: Transaction) -> None:
        thread_id, fence = self.thread_id, self.fence
        assert thread_id is not None
        transaction.require(thread_id, fence)
        if fence is None:
            transaction.append(thread_id, self.entries)
        else:
            transaction.append(thread_id, self.entries, fence.run_id, fence.attempt)


class Operation(Job, Generic[T]):
    """Any other job. If it names a thread, the thread must exist; if it names a fence, that must hold the thread."""

    __slots__ = ("_operation", "essential", "result")

    result: T

    def __init__(
        self,
        operation: Callable[[Transaction], T],
        *,
        thread_id: ThreadId | None = None,
        fence: Fence | None = None,
        weight: int = 0,
        essential: bool = False,
    ) -> None:
        super().__init__(thread_id, fence, JOB_OVERHEAD + weight)
        self._operation = operation
        self.essential = essential

    def perform(self, transaction: Transaction) -> None:
        if self.thread_id is not None:
            transaction.require(self.thread_id, self.fence)
        self.result = self._operation(transaction)
