"""The worker processes, from the point of view of their owner: the process that started them.

A worker process claims and executes runs like the worker of a single process. If only the owner can open the storage,
the worker process uses it over its channel. This module knows what only the owner can know: which worker a new run
should start on, how many runs each worker may claim, which runs a dead worker leaves behind.

When the channel of a worker ends, the worker has died. Its leases expire immediately, and its runs are charged and
continue elsewhere. A worker that no longer responds keeps its runs until their leases expire: it may just be slow.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from math import ceil
from typing import Any

import anyio
import structlog

from threadwire.core.entries import Fence
from threadwire.core.histogram import Histogram
from threadwire.core.ids import RunId, ThreadId, uuid7
from threadwire.core.records import CancelAction, Lease, Run, Suspects
from threadwire.engine.clock import Clock
from threadwire.engine.thread_holds import ThreadHolds
from threadwire.engine.workers import Slot
from threadwire.errors import GraphUnavailable, StorageError
from threadwire.ipc.channel import Channel
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.workers")

RESPONSIVE_SECONDS = 3.0
"""A worker that has been silent for longer than this gets no new work. Workers report every second that they are
alive."""
STOP_MARGIN = 2.5
"""Seconds beyond the grace period that a worker has to stop and release its runs."""
CALL_WAIT = 30.0
"""Seconds that a graph call waits for a worker."""
RETRY_DELAY = 1.0


class WorkerConnection:
    """A worker process that is connected."""

    def __init__(
        self, lease: Lease, channel: Channel, capacity: int, *, alone: bool = False, has_storage: bool = False
    ) -> None:
        self.lease = lease
        self.channel = channel
        self.capacity = capacity
        self.alone = alone
        """Whether it executes only suspects, one at a time."""
        self.has_storage = has_storage
        """Whether it has opened the storage itself. Then it claims its runs there, and reports them."""
        self.runs: dict[RunId, Run] = {}
        """The runs that it executes, or is about to execute."""
        self.reserved = 0
        self.calls = 0
        """Number of graph calls in progress."""
        self.ready = False
        self.is_blocked = False
        """Whether a node blocks the loop that all its runs share, so that no other run should start there."""
        self.drained = asyncio.Event()
        self.abandoned = asyncio.Event()
        """Set if it did not stop in time. Its process is killed, and its runs are released without it."""
        self.last_heard = anyio.current_time()

    @property
    def free(self) -> int:
        return self.capacity - len(self.runs) - self.reserved

    @property
    def silence(self) -> float:
        """Seconds since the worker last reported that it is alive."""
        return anyio.current_time() - self.last_heard

    @property
    def is_responsive(self) -> bool:
        return self.silence < RESPONSIVE_SECONDS

    @property
    def is_available(self) -> bool:
        return self.ready and not self.alone and self.is_responsive


class WorkerPool:
    def __init__(self, storage: Storage, clock: Clock, lease: Lease, reclaim: Callable[[], Awaitable[None]]) -> None:
        """`reclaim` recovers the runs whose leases have expired."""
        self.lease = Lease(f"owner {uuid7()}", lease.milliseconds)
        self._storage = storage
        self._clock = clock
        self._reclaim = reclaim
        self._held_threads = ThreadHolds(storage, self.lease)
        self._connections: list[WorkerConnection] = []
        self._prepared = asyncio.Event()
        self._drain_started = asyncio.Event()
        self._dead: set[str] = set()
        """Workers that died and whose runs have not been recovered yet."""
        self._changed = asyncio.Event()
        self.ended: Counter[str] = Counter()
        self.waited = Histogram()
        self.deaths = 0
        """Number of worker processes that have died since this process started."""

    @property
    def connections(self) -> Sequence[WorkerConnection]:
        return self._connections

    @property
    def capacity(self) -> int:
        return sum(each.capacity for each in self._connections if each.ready and not each.alone)

    @property
    def active(self) -> int:
        return sum(len(each.runs) for each in self._connections)

    @property
    def is_ready(self) -> bool:
        return not self.is_draining and any(each.is_available for each in self._connections)

    @property
    def is_draining(self) -> bool:
        return self._drain_started.is_set()

    # Connections

    def connect(self, connection: WorkerConnection) -> None:
        """Add a worker and register the handlers for its messages. Call this before its channel is opened."""
        channel = connection.channel

        async def claim(limit: int, lease: Lease, now: int, suspects: Suspects) -> Sequence[Run]:
            return await self._claim(connection, limit, now, suspects)

        async def may_claim(limit: int) -> int:
            return await self._may_claim(connection, limit)

        channel.on_request("claim", claim)
        channel.on_request("may_claim", may_claim)
        channel.on_notification("run_claimed", lambda run: self._note_started(connection, run))
        channel.on_notification("alive", lambda is_blocked: self._note_alive(connection, is_blocked))
        channel.on_notification("ready", lambda: self._note_ready(connection))
        channel.on_notification("run_stopped", lambda run_id, ended: self._note_stopped(connection, run_id, ended))
        channel.on_notification("drained", connection.drained.set)
        self._connections.append(connection)

    def disconnect(self, connection: WorkerConnection, *, died: bool) -> None:
        """Remove a worker whose process has ended."""
        self._connections.remove(connection)
        connection.drained.set()
        if died:
            self.deaths += 1
        self._abandon(connection)

    def _abandon(self, connection: WorkerConnection) -> None:
        """Note that a worker has ended, so that its runs are recovered."""
        self._dead.add(connection.lease.worker)
        self._notify()

    def _note_alive(self, connection: WorkerConnection, is_blocked: bool = False) -> None:
        connection.last_heard = anyio.current_time()
        connection.is_blocked = is_blocked

    def _note_ready(self, connection: WorkerConnection) -> None:
        connection.ready = True
        self._note_alive(connection)
        self._notify()

    def _note_started(self, connection: WorkerConnection, run: Run) -> None:
        connection.runs[run.run_id] = run
        if run.attempt == 1:
            self.waited.observe(max(0, self._clock() - max(run.due_at, run.created_at)) / 1000)

    def _note_stopped(self, connection: WorkerConnection, run_id: RunId, ended: dict[str, int]) -> None:
        connection.runs.pop(run_id, None)
        self.ended.update(ended)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # Runs

    async def _claim(self, connection: WorkerConnection, limit: int, now: int, suspects: Suspects) -> Sequence[Run]:
        limit = await self._may_claim(connection, limit)
        if not limit:
            return []
        connection.reserved += limit
        try:
            claimed = await self._storage.runs.claim(limit, connection.lease, now=now, suspects=suspects)
        finally:
            connection.reserved -= limit
        for run in claimed:
            self._note_started(connection, run)
        if claimed and connection.channel.has_ended:
            self._abandon(connection)
        return claimed

    async def _may_claim(self, connection: WorkerConnection, limit: int) -> int:
        """How many runs the worker may claim now. If more are pending, it asks again immediately."""
        await self._prepared.wait()
        if connection.is_blocked:
            await anyio.sleep(RETRY_DELAY)
        if self.is_draining or connection.is_blocked:
            return 0
        share = limit if connection.alone else await self._share()
        return max(0, min(limit, share, connection.free))

    async def _share(self) -> int:
        """How many of the pending runs one worker may claim in one call, so that the others get some too."""
        pending = (await self._storage.runs.count_active())["pending"]
        return ceil(pending / max(1, sum(each.is_available for each in self._connections))) or 1

    @contextmanager
    def reserve_slot(self, thread_id: ThreadId) -> Iterator[Slot | None]:
        connection = None if thread_id in self._held_threads else self._most_free()
        if connection is None:
            yield None
            return
        connection.reserved += 1
        try:
            yield Slot(connection.lease, lambda run: self._start(connection, run))
        finally:
            connection.reserved -= 1

    def _most_free(self) -> WorkerConnection | None:
        if self.is_draining or not self._prepared.is_set():
            return None
        available = [each for each in self._connections if each.is_available]
        free = [each for each in available if each.free > 0 and not each.is_blocked and not each.has_storage]
        return max(free, key=lambda each: each.free, default=None)

    def _start(self, connection: WorkerConnection, run: Run) -> None:
        self._note_started(connection, run)
        connection.channel.notify("start", run)
        if connection.channel.has_ended:
            self._abandon(connection)

    def stop(self, run_id: RunId, action: CancelAction) -> None:
        for each in self._connections:
            if run_id in each.runs or each.reserved:  # it may be claiming the run
                each.channel.notify("stop", run_id, action)

    async def wait_until_stopped(self, run_id: RunId) -> None:
        while any(run_id in each.runs for each in self._connections):
            await self._changed.wait()

    def hint(self) -> None:
        """Does nothing: the hints of the storage are forwarded to every worker."""

    def attempts(self) -> Sequence[Fence]:
        return ()

    def lose(self, fence: Fence) -> None:
        """Does nothing: no attempt is executed in this process."""

    def hold_thread(self, thread_id: ThreadId) -> AbstractAsyncContextManager[None]:
        return self._held_threads.holding(thread_id)

    @property
    def holds_threads(self) -> bool:
        return bool(self._held_threads)

    # Graph calls

    async def call(self, name: str, *arguments: Any) -> Any:
        """Send a request to the worker with the fewest calls, once one is available. Raises `GraphUnavailable` if none
        becomes available within `CALL_WAIT` seconds."""
        connection = await self._least_called()
        connection.calls += 1
        try:
            return await connection.channel.request(name, *arguments)
        finally:
            connection.calls -= 1

    async def _least_called(self) -> WorkerConnection:
        with anyio.move_on_after(CALL_WAIT):
            while not (available := [each for each in self._connections if each.is_available]):
                changed = self._changed
                with anyio.move_on_after(RETRY_DELAY):  # a worker that was silent may respond again
                    await changed.wait()
            return min(available, key=lambda each: each.calls)
        raise GraphUnavailable("No worker process is ready to call the graph. Try again later.")

    # Working and draining

    async def work(self, prepare: Callable[[], Awaitable[None]] | None = None) -> None:
        if prepare is not None:
            await self._retry(prepare)
        self._prepared.set()
        while not self.is_draining:
            changed = self._changed
            if self._dead:
                await self._retry(self._recover)
            else:
                await changed.wait()

    async def _recover(self) -> None:
        dead = set(self._dead)
        for worker in dead:
            await self._storage.runs.expire_leases(worker)
        await self._reclaim()
        self._dead -= dead

    async def _retry(self, work: Callable[[], Awaitable[None]]) -> None:
        while not self.is_draining:
            try:
                return await work()
            except StorageError as error:
                logger.warning("recovery_failed", error=error.message)
            with anyio.move_on_after(RETRY_DELAY):
                await self._drain_started.wait()

    async def drain(self, grace: float) -> None:
        self._drain_started.set()
        self._prepared.set()
        self._notify()
        draining = [each for each in self._connections if each.ready]
        for each in draining:
            each.channel.notify("drain", grace)
        with anyio.move_on_after(grace + STOP_MARGIN):
            for each in draining:
                await each.drained.wait()
        unresponsive = [each for each in draining if not each.drained.is_set()]
        for each in unresponsive:
            logger.warning("worker_drain_timed_out", worker=each.lease.worker, runs=len(each.runs))
            # Killed before its runs are released: a transaction that it has not finished may lock their rows.
            each.abandoned.set()
        for each in unresponsive:
            each.drained.set()
            await self._release_runs(each)

    async def _release_runs(self, connection: WorkerConnection) -> None:
        """Release the runs of a worker that did not stop in time. Whatever it still writes is rejected."""
        with anyio.move_on_after(STOP_MARGIN):
            for run in [*connection.runs.values()]:
                await self._storage.handle(run).release(self._clock())
