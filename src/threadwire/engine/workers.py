"""The interface through which the engine uses its workers, in this process or in others."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from threadwire.core.entries import Fence
from threadwire.core.histogram import Histogram
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CancelAction, Lease, Run, Suspects

LEASE_MILLISECONDS = 20_000
"""How long a run stays claimed if its worker does not renew the lease; see `leases.py`."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot that is reserved for a run while it is being accepted."""

    lease: Lease
    start: Callable[[Run], None]
    """Executes the run, if it was claimed with the lease."""


class Claim(Protocol):
    """`RunQueue.claim`, or a function that replaces it."""

    async def __call__(self, limit: int, lease: Lease, *, now: int, suspects: Suspects) -> Sequence[Run]: ...


class Workers(Protocol):
    """`Worker` executes the runs in this process; `WorkerPool` passes them to worker processes."""

    @property
    def lease(self) -> Lease:
        """The lease under which this process holds threads and claims the runs that it executes itself."""

    @property
    def ended(self) -> Counter[str]:
        """Number of runs since the start of the process, by final status."""

    @property
    def waited(self) -> Histogram:
        """How long runs waited for their first attempt after they were due."""

    @property
    def capacity(self) -> int:
        """How many runs may execute concurrently."""

    @property
    def active(self) -> int:
        """Number of runs that are being executed."""

    @property
    def is_ready(self) -> bool:
        """Whether runs can start, once the storage can write."""

    def reserve_slot(self, thread_id: ThreadId) -> AbstractContextManager[Slot | None]:
        """Reserve a slot while a run is being accepted, so that it can start immediately. Yield None if no slot is
        free."""

    def hold_thread(self, thread_id: ThreadId) -> AbstractAsyncContextManager[None]:
        """Keep every worker from starting a run on this thread inside the block; see `ThreadHolds.holding`."""

    @property
    def holds_threads(self) -> bool: ...

    def hint(self) -> None:
        """Wake the workers of this process, because there may be work. Spurious calls are harmless."""

    def stop(self, run_id: RunId, action: CancelAction) -> None:
        """Stop a run whose cancellation is already stored on its row, without waiting for the hint of the storage."""

    async def wait_until_stopped(self, run_id: RunId) -> None:
        """Return once the run is no longer being executed."""

    def attempts(self) -> Sequence[Fence]:
        """The attempts that are being executed in this process."""

    def lose(self, fence: Fence) -> None:
        """Stop an attempt of this process that no longer holds its thread."""

    async def work(self, prepare: Callable[[], Awaitable[None]] | None = None) -> None:
        """Execute runs, here or in worker processes, until drained. No run starts before `prepare` has succeeded."""

    async def drain(self, grace: float) -> None:
        """Accept no new work. Give active runs `grace` seconds to end, then stop and release the rest, uncharged."""
