"""Claims runs, executes them and records how they end. One worker per process; its runs share the worker loop."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup

from threadwire.core.configuration import base_checkpoint_of, user_of
from threadwire.core.entries import Fence, Kind
from threadwire.core.histogram import Histogram
from threadwire.core.ids import RunId, ThreadId, uuid7
from threadwire.core.records import CancelAction, Ending, Lease, Run, Suspects
from threadwire.core.run_state import user_interrupt_error
from threadwire.engine.access import current_user
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock, seconds_until
from threadwire.engine.thread_holds import ThreadHolds
from threadwire.engine.workers import LEASE_MILLISECONDS, Claim, Slot
from threadwire.errors import (
    GraphUnavailable,
    LoopAbandoned,
    LoopFailed,
    NotFound,
    RollbackDue,
    StorageError,
    StorageUnavailable,
)
from threadwire.graphs.current_attempt import current_attempt
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.execution import Attempt, Execution
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.store import StoreProvider
from threadwire.graphs.user_loop import LoopBlocked, UserLoop, WorkCancelled
from threadwire.storage.abc import RunHandle, WorkerStorage

logger = structlog.get_logger("threadwire.worker")

STOP_TIMEOUT = 2.0
"""Seconds a run has to stop when a shutdown cancels it. Its code may block, or suppress the cancellation."""

RETRY_DELAY = 1.0
"""Seconds until the worker retries what the storage could not do."""

_PAGE = 20

_ROLLED_BACK = Ending(status="interrupted", rollback=True)


@dataclass(slots=True)
class _Running:
    handle: RunHandle
    scope: anyio.CancelScope
    action: CancelAction | None = None
    lost: bool = False
    """Whether the attempt no longer holds its thread, so that nothing it does can be stored."""
    execution: Execution | None = None
    """Set once the attempt's starting checkpoint is known."""

    @property
    def run(self) -> Run:
        return self.handle.run


class Worker:
    def __init__(
        self,
        storage: WorkerStorage,
        registry: GraphRegistry,
        loop: UserLoop,
        *,
        checkpoints: ThreadCheckpoints,
        store: StoreProvider,
        capacity: int,
        clock: Clock,
        messages: ErrorMessages | None = None,
        lease: Lease | None = None,
        suspects: Suspects = "one",
        on_stopped: Callable[[RunId], None] | None = None,
        claim: Claim | None = None,
        shares_queue: bool = False,
    ) -> None:
        """`on_stopped` is called whenever the execution of a run has ended. `claim` replaces the `claim` of the
        storage. With `shares_queue`, a run that cannot start because a node blocks the loop is left to the other
        workers."""
        self.lease = lease or Lease(f"worker {uuid7()}", LEASE_MILLISECONDS)
        self._suspects: Suspects = suspects
        self._on_stopped = on_stopped
        self._claim = claim
        self._shares_queue = shares_queue
        self._storage = storage
        self._registry = registry
        self._checkpoints = checkpoints
        self._store = store
        self._loop = loop
        self.capacity = capacity
        self._clock = clock
        self._messages = messages or ErrorMessages()
        self._running: dict[RunId, _Running] = {}
        self._stop_requests: dict[RunId, CancelAction] = {}
        self._held_threads = ThreadHolds(storage, self.lease)
        self._idle_threads: list[ThreadId] = []
        """Held threads whose last node has returned, so that the hold can end."""
        self._wake = asyncio.Event()
        self._slot_freed = asyncio.Event()
        self._drain_started = asyncio.Event()
        self._paused = False
        """Whether no run may start, because the storage could not store its output or a node blocks the loop."""
        self._reserved = 0
        self._claiming = False
        self._queue_is_empty = False
        """Whether the last poll found no pending run, and no hint has come since."""
        self._tasks: TaskGroup | None = None
        self.ended: Counter[str] = Counter()
        """Number of runs since the start of the process, by final status."""
        self.waited = Histogram()
        """How long runs waited for their first attempt after they were due."""

    @contextmanager
    def reserve_slot(self, thread_id: ThreadId) -> Iterator[Slot | None]:
        """Reserve a slot while a run is being accepted, so that it can start immediately. Yield None if no slot is
        free."""
        free = self.is_ready and self._may_start and self._free > 0 and thread_id not in self._held_threads
        reserved = int(free)
        self._reserved += reserved

        def start(run: Run) -> None:
            nonlocal reserved
            self._reserved -= reserved  # the run itself occupies the slot now
            reserved = 0
            self.start(run)

        try:
            yield Slot(self.lease, start) if free else None
        finally:
            self._reserved -= reserved
            if reserved and not self._queue_is_empty:  # the slot was not used
                self._wake.set()
            self._discard_stop_requests()
            self._slot_freed.set()

    @asynccontextmanager
    async def hold_thread(self, thread_id: ThreadId) -> AsyncIterator[None]:
        try:
            async with self._held_threads.holding(thread_id):
                yield
        finally:
            self._wake.set()

    def start(self, run: Run) -> None:
        """Execute a run that is already claimed."""
        assert self._tasks is not None, "the worker is not running"
        if run.attempt == 1:
            self.waited.observe(max(0, self._clock() - max(run.due_at, run.created_at)) / 1000)
        running = self._running[run.run_id] = _Running(self._storage.handle(run), anyio.CancelScope())
        if run.run_id in self._stop_requests:
            self.stop(run.run_id, self._stop_requests.pop(run.run_id))
        if self._draining:  # accepted while the shutdown was starting: released for the next process
            running.scope.cancel()
        self._tasks.start_soon(self._run, run)

    @property
    def active(self) -> int:
        """Number of runs that are being executed."""
        return len(self._running)

    @property
    def is_ready(self) -> bool:
        return self._tasks is not None and not self._draining

    @property
    def _free(self) -> int:
        return self.capacity - len(self._running) - self._reserved

    @property
    def _may_start(self) -> bool:
        return not self._paused and not self._leaves_runs

    @property
    def _leaves_runs(self) -> bool:
        """Whether a node blocks the loop, and other workers can execute what is pending."""
        return self._shares_queue and self._loop.is_blocked

    def hint(self) -> None:
        """Wake the worker, because there may be work. Spurious calls are harmless."""
        self._wake.set()

    def attempts(self) -> list[Fence]:
        """The attempts that are being executed."""
        return [running.run.fence for running in self._running.values()]

    @property
    def holds_threads(self) -> bool:
        return bool(self._held_threads)

    def lose(self, fence: Fence) -> None:
        """Stop an attempt that no longer holds its thread. It neither ends nor releases its run."""
        running = self._running.get(fence.run_id)
        if running is not None and running.run.fence == fence and not running.lost:
            logger.warning("run_lost", **_log_fields(running.run))
            running.lost = True
            running.scope.cancel()

    def stop(self, run_id: RunId, action: CancelAction) -> None:
        """Stop a run whose cancellation is already stored on its row, without waiting for the hint of the storage. A
        run not known here has ended or is about to start, or another worker executes it."""
        if (running := self._running.get(run_id)) is not None:
            running.action = running.action or action
            running.scope.cancel()
        elif self._claiming or self._reserved:
            self._stop_requests[run_id] = action

    def _discard_stop_requests(self) -> None:
        """Discard the stop requests if no run is about to start."""
        if not self._claiming and not self._reserved:
            self._stop_requests.clear()

    async def wait_until_stopped(self, run_id: RunId) -> None:
        """Return once the run is no longer being executed."""
        while run_id in self._running:
            self._slot_freed.clear()
            await self._slot_freed.wait()

    @property
    def _draining(self) -> bool:
        return self._drain_started.is_set()

    async def work(self, prepare: Callable[[], Awaitable[None]] | None = None) -> None:
        """Claim and execute runs until drained. No run starts before `prepare` has succeeded."""
        if prepare is not None:
            await self._retry(prepare)
        async with anyio.create_task_group() as self._tasks:
            while not self._draining:
                await self._retry(self._work_once)
            while self._reserved:  # a run that is being accepted may still start, and needs the task group
                self._slot_freed.clear()
                await self._slot_freed.wait()

    async def _work_once(self) -> None:
        self._wake.clear()
        self._queue_is_empty = False
        while self._idle_threads:
            await self._held_threads.end(self._idle_threads.pop())
        await self._start_claimed()
        await self._wait_for_work()

    async def _retry(self, work: Callable[[], Awaitable[None]]) -> None:
        """Execute `work`, and retry until the storage is available or a shutdown starts."""
        while not self._draining:
            try:
                if self._may_start:
                    return await work()
            except StorageUnavailable as error:
                logger.warning("worker_paused", error=error.message)
            await self._pause()

    async def _pause(self) -> None:
        """Start no run for `RETRY_DELAY` seconds, or until a shutdown starts. Stay paused after that if the storage
        cannot write, or if pending runs are left to other workers."""
        self._paused = True
        with anyio.move_on_after(RETRY_DELAY):
            await self._drain_started.wait()
        self._paused = self._storage.write_error is not None or self._leaves_runs

    async def drain(self, grace: float) -> None:
        """Accept no new work. Give active runs `grace` seconds to end, then stop and release the rest, uncharged. A run
        that does not stop is released too: its code may continue, but its writes are fenced off."""
        self._drain_started.set()
        self._wake.set()
        with anyio.move_on_after(grace):
            await self._wait_until_idle()
        for running in self._running.values():
            running.scope.cancel()
        with anyio.move_on_after(STOP_TIMEOUT):
            await self._wait_until_idle()
        if self._running:
            self._abandon_runs()
            await self._wait_until_idle()

    async def _wait_until_idle(self) -> None:
        while self._running:
            self._slot_freed.clear()
            await self._slot_freed.wait()

    def _abandon_runs(self) -> None:
        if (blocked_at := self._loop.blocked_at()) is not None:
            node, location = blocked_at
            logger.warning("loop_abandoned", loop=self._loop.name, node=node, at=location)
        for running in self._running.values():
            nodes = running.execution.next if running.execution is not None else ()
            logger.warning("run_stop_timed_out", nodes=list(nodes), **_log_fields(running.run))
        self._loop.abandon()

    async def _start_claimed(self) -> None:
        if self._free <= 0:
            return
        self._claiming = True
        try:
            claim: Claim = self._claim or self._storage.runs.claim
            for run in await claim(self._free, self.lease, now=self._clock(), suspects=self._suspects):
                self.start(run)
        finally:
            self._claiming = False
            self._discard_stop_requests()

    async def _wait_for_work(self) -> None:
        """Wait for a hint, or until the next run is due."""
        # Runs on held threads do not count: the end of a hold wakes the worker.
        due = await self._storage.runs.next_due(suspects=self._suspects)
        if due is None:
            self._queue_is_empty = not (await self._storage.runs.count_active())["pending"]
        with anyio.move_on_after(seconds_until(due if self._free > 0 else None, self._clock())):
            await self._wake.wait()

    async def _run(self, run: Run) -> None:
        try:
            await self._run_to_end(self._running[run.run_id])
        finally:
            del self._running[run.run_id]
            if not self._queue_is_empty:  # a pending run may need its thread or its slot
                self._wake.set()
            self._slot_freed.set()
            if self._on_stopped is not None:
                self._on_stopped(run.run_id)

    async def _run_to_end(self, running: _Running) -> None:
        run = running.run
        ending: Ending | None = None
        try:
            with running.scope:
                execution = Execution(await self._attempt(run), running.handle, self._messages)
                running.execution = execution
                work = partial(self._execute, running.handle, execution)
                ending = await self._loop.run(work, unless_blocked=self._shares_queue)
        except WorkCancelled as error:
            ending = Ending(status="error", error={"error": "CancelledError", "message": str(error)})
        except LoopBlocked:
            logger.info("run_handed_over", **_log_fields(run))
        except LoopAbandoned:  # the run is released, or ends with the requested action
            pass
        except LoopFailed:  # the run stays as it is, and another process recovers it
            raise
        except StorageUnavailable as error:  # it resumes from its last checkpoint when the storage is available again
            logger.warning("run_suspended", error=error.message, **_log_fields(run))
        except (GraphUnavailable, NotFound) as error:
            ending = Ending(status="error", error=self._messages.describe(error, run.run_id))
        except Exception as error:
            logger.exception("run_execution_failed", **_log_fields(run))
            ending = Ending(status="error", error=self._messages.describe(error, run.run_id))
        with anyio.CancelScope(shield=True):
            await self._end(running, ending)

    async def _attempt(self, run: Run) -> Attempt:
        newest = await self._checkpoints.newest_before(run)
        checkpoint_id, created_by = newest if newest is not None else (None, None)
        resumes = created_by == run.run_id
        if not resumes:  # the checkpoint existed when the run was accepted, but may have been rolled back since
            await self._checkpoints.require(run.thread_id, base_checkpoint_of(run.kwargs.get("config") or {}))
        return Attempt(
            run,
            resumes=resumes,
            base_checkpoint=checkpoint_id,
            answer_recorded=run.attempt > 1 and run.resume is not None and await self._has_recorded_answer(run),
            stream_models=self._registry.stream_models(run.graph_id),
        )

    async def _has_recorded_answer(self, run: Run) -> bool:
        """Whether an earlier attempt has recorded the run's answers. If so, `input.answered` is one of the run's first
        entries."""
        cursor = run.queued_seq
        while entries := await self._storage.log.read(run.thread_id, cursor, limit=_PAGE, run_id=run.run_id):
            if any(entry.kind == Kind.INPUT_ANSWERED for entry in entries):
                return True
            cursor = entries[-1].seq
        return False

    async def _execute(self, handle: RunHandle, execution: Execution) -> Ending:
        """Runs on the worker loop."""
        run = handle.run
        current_attempt.set(run.fence)
        current_user.set(user_of(run))
        saver = self._checkpoints.saver_of(handle)
        try:
            context = run.kwargs.get("context") or None
            store = self._store.for_owner(run.owner)
            async with self._registry.open(run.graph_id, execution.config, store=store, context=context) as graph:
                return await execution.drive(graph, saver, store)
        except StorageUnavailable:  # not an error of the graph
            raise
        except asyncio.CancelledError:  # requested, or raised by the graph itself; the caller knows which
            raise
        except BaseException as error:
            # Raised by the graph, or by a factory that wraps the graph and has seen its error.
            return execution.failed(error)

    async def _end(self, running: _Running, ending: Ending | None) -> None:
        run = running.run
        if ending is None or ending.status != "success":
            await self._hold_thread_while_busy(run)
        if running.lost:
            return
        # A requested rollback happens even if the graph ended first, because the client was promised one.
        if ending is None or running.action == "rollback":
            ending = self._stopped(running)
        while (error := await self._try_to_end(running, ending)) is not None:
            logger.warning("run_end_postponed", error=error.message, **_log_fields(run))
            if self._draining:
                logger.error("run_release_failed", effect="Another process recovers the run.", **_log_fields(run))
                return
            ending = self._ending_after(error, running, ending)
            await self._pause()

    async def _try_to_end(self, running: _Running, ending: Ending | None) -> StorageUnavailable | None:
        """Release the run if it has no ending, or end it. Return the error if the storage is unavailable."""
        handle, now = running.handle, self._clock()
        try:
            if ending is None:
                await handle.release(now)
                # Without a shutdown, a run is released only if the storage cannot store its output or the loop is
                # blocked. Then no other run should start either.
                self._paused = not self._draining
                self._wake.set()
                return None
            ending = await self._finish(handle, ending, now)
        except StorageUnavailable as error:
            return error
        self.ended[ending.status] += 1
        self._log_end(running, ending)
        return None

    def _ending_after(self, error: StorageError, running: _Running, ending: Ending | None) -> Ending | None:
        """The ending to store after another could not be stored. Some of the run's output may be lost, so the attempt
        cannot succeed. None means: release the run, so that it resumes from its last checkpoint."""
        if running.action == "interrupt":
            return Ending(status="error", error=self._messages.describe(error, running.run.run_id))
        return ending if running.action == "rollback" or (ending and ending.status == "error") else None

    async def _finish(self, handle: RunHandle, ending: Ending, now: int) -> Ending:
        """Store the ending. Return the ending that was stored, which may differ."""
        try:
            if ending.rollback:
                await self._checkpoints.forget_run(handle.run.run_id)
            await handle.finish(ending, now)
        except RollbackDue:  # requested just now; this worker has not been notified yet
            return await self._finish(handle, _ROLLED_BACK, now)
        except StorageUnavailable:  # it may succeed later
            raise
        except StorageError as error:  # some of the run's output could not be stored, so it has not succeeded
            failed = Ending(status="error", error=self._messages.describe(error, handle.run.run_id))
            await handle.finish(failed, now, force=ending.rollback)
            return failed
        return ending

    def _stopped(self, running: _Running) -> Ending | None:
        """The ending of a cancelled run; None if a shutdown cancelled it, because then it has not ended."""
        if running.action is None:
            return None
        if running.action == "rollback":
            return _ROLLED_BACK
        error = user_interrupt_error(running.action)
        if running.execution is None:
            return Ending(status="interrupted", error=error)
        return running.execution.interrupted(error)

    async def _hold_thread_while_busy(self, run: Run) -> None:
        """Start no further run on the thread while a cancelled sync node of this run is still executing. A successful
        run leaves no node executing. It may leave background tasks, but they need not delay the next run."""
        loop = asyncio.get_running_loop()
        release = partial(self._note_idle, run.thread_id)
        if self._loop.threads.when_idle(run.fence, lambda: loop.call_soon_threadsafe(release)):
            return
        try:
            await self._held_threads.hold(run.thread_id)
        except StorageError as error:
            logger.error("thread_hold_failed", error=error.message, **_log_fields(run))

    def _note_idle(self, thread_id: ThreadId) -> None:
        self._idle_threads.append(thread_id)
        self._wake.set()

    def _log_end(self, running: _Running, ending: Ending) -> None:
        fields = _log_fields(running.run)
        if ending.status != "error":
            logger.debug("run_ended", status=ending.status, **fields)
            return
        if running.execution is not None and running.execution.traceback is not None:
            fields["stack"] = running.execution.traceback
        logger.warning("run_ended", status="error", error=(ending.error or {}).get("error"), **fields)


def _log_fields(run: Run) -> dict[str, Any]:
    return {"run_id": run.run_id, "thread_id": run.thread_id, "graph_id": run.graph_id}
