"""Claims runs, executes them and records how they end. One worker per process; its runs share the user loop."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup

from threadwire.core.configuration import base_checkpoint_of
from threadwire.core.entries import Draft, Fence, Kind
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CancelAction, Ending, Run
from threadwire.core.run_state import user_interrupt_error
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock, seconds_until
from threadwire.errors import GraphUnavailable, LoopAbandoned, LoopFailed, NotFound, RollbackDue, StorageError
from threadwire.graphs.current_attempt import current_attempt
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.execution import Attempt, Execution
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.store import StoreProvider
from threadwire.graphs.user_loop import UserLoop, WorkCancelled
from threadwire.storage.abc import Log, Storage

logger = structlog.get_logger("threadwire.worker")

STOP_TIMEOUT = 2.0
"""Seconds a run has to stop when a shutdown cancels it. Its code may block, or suppress the cancellation."""

_PAGE = 20

_ROLLED_BACK = Ending(status="interrupted", rollback=True)


@dataclass(slots=True)
class _Running:
    run: Run
    scope: anyio.CancelScope
    action: CancelAction | None = None
    execution: Execution | None = None
    """Set once the attempt's starting checkpoint is known."""


class LogRecorder:
    """Appends an attempt's entries to its thread's log, under its fence."""

    def __init__(self, log: Log, thread_id: ThreadId, fence: Fence) -> None:
        self._log = log
        self._thread_id = thread_id
        self._fence = fence

    def record(self, drafts: Sequence[Draft]) -> None:
        if drafts:
            self._log.append(self._thread_id, drafts, self._fence)

    @property
    def queue_full(self) -> bool:
        return self._log.queue_full

    async def wait_for_room(self) -> None:
        await self._log.wait_for_room()


class Worker:
    def __init__(
        self,
        storage: Storage,
        registry: GraphRegistry,
        loop: UserLoop,
        *,
        checkpoints: ThreadCheckpoints,
        store: StoreProvider,
        capacity: int,
        clock: Clock,
        messages: ErrorMessages | None = None,
    ) -> None:
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
        self._held_threads: Counter[ThreadId] = Counter()
        """Threads on which no run may start, each with the number of its holds."""
        self._wake = asyncio.Event()
        self._slot_freed = asyncio.Event()
        self._draining = False
        self._reserved = 0
        self._claiming = False
        self._queue_is_empty = False
        """Whether the last poll found no pending run, and no hint has come since."""
        self._tasks: TaskGroup | None = None
        self.ended: Counter[str] = Counter()
        """Number of runs since the start of the process, by final status."""

    @contextmanager
    def reserve_slot(self, thread_id: ThreadId) -> Iterator[Callable[[Run], None] | None]:
        """Reserve a slot while a run is being accepted, so that it can start immediately. Yield a function that starts
        it, or None if there is no slot."""
        free = not self._draining and self._tasks is not None and self._free > 0 and thread_id not in self._held_threads
        reserved = int(free)
        self._reserved += reserved

        def start(run: Run) -> None:
            nonlocal reserved
            self._reserved -= reserved  # the run itself occupies the slot now; accepting it may still take a while
            reserved = 0
            self.start(run)

        try:
            yield start if free else None
        finally:
            self._reserved -= reserved
            if reserved and not self._queue_is_empty:  # the slot was not used
                self._wake.set()
            self._discard_stop_requests()
            self._slot_freed.set()

    @contextmanager
    def hold_thread(self, thread_id: ThreadId) -> Iterator[None]:
        """Start no run of this thread inside the block. A run that is already being accepted may still start, so check
        inside the block whether the thread is free: the storage executes that check after the acceptance."""
        self._held_threads[thread_id] += 1
        try:
            yield
        finally:
            self._release_thread(thread_id)

    def _release_thread(self, thread_id: ThreadId) -> None:
        self._held_threads[thread_id] -= 1
        if not self._held_threads[thread_id]:
            del self._held_threads[thread_id]
        self._wake.set()

    def start(self, run: Run) -> None:
        """Execute a run that is already claimed."""
        assert self._tasks is not None, "the worker is not running"
        running = self._running[run.run_id] = _Running(run, anyio.CancelScope())
        if run.run_id in self._stop_requests:
            self.stop(run.run_id, self._stop_requests.pop(run.run_id))
        if self._draining:  # accepted while the shutdown was starting: released for the next process
            running.scope.cancel()
        self._tasks.start_soon(self._run, run)

    @property
    def _free(self) -> int:
        return self.capacity - len(self._running) - self._reserved

    def hint(self) -> None:
        """Wake the worker, because there may be work. Spurious calls are harmless."""
        self._wake.set()

    def stop(self, run_id: RunId, action: CancelAction) -> None:
        """Stop a run whose cancellation is already stored on its row. A run not known here has ended or is about to
        start."""
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

    async def work(self) -> None:
        """Claim and execute runs until drained."""
        async with anyio.create_task_group() as self._tasks:
            while not self._draining:
                self._wake.clear()
                self._queue_is_empty = False
                await self._start_claimed()
                await self._wait_for_work()
            while self._reserved:  # a run that is being accepted may still start, and needs the task group
                self._slot_freed.clear()
                await self._slot_freed.wait()

    async def drain(self, grace: float) -> None:
        """Accept no new work. Give active runs `grace` seconds to end, then stop and release the rest, uncharged. A run
        that does not stop is released too: its code may continue, but its writes are fenced off."""
        self._draining = True
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
        node, location = self._loop.blocked_at()
        if location is not None:
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
            exclude = frozenset(self._held_threads)
            for run in await self._storage.runs.claim(self._free, now=self._clock(), exclude=exclude):
                self.start(run)
        finally:
            self._claiming = False
            self._discard_stop_requests()

    async def _wait_for_work(self) -> None:
        """Wait for a hint, or until the next run is due."""
        # Runs on held threads do not count: releasing such a thread wakes the worker.
        due = await self._storage.runs.next_due(exclude=frozenset(self._held_threads))
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

    async def _run_to_end(self, running: _Running) -> None:
        run = running.run
        ending: Ending | None = None
        try:
            with running.scope:
                recorder = LogRecorder(self._storage.log, run.thread_id, run.fence)
                execution = running.execution = Execution(await self._attempt(run), recorder, self._messages)
                ending = await self._loop.run(partial(self._execute, run, execution))
        except WorkCancelled as error:
            ending = Ending(status="error", error={"error": "CancelledError", "message": str(error)})
        except LoopAbandoned:  # the run is released, or ends with the requested action
            pass
        except LoopFailed:  # the run stays as it is, and the next process recovers it
            raise
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
        if not resumes:  # it existed when the run was accepted, but other runs may have been rolled back since
            await self._checkpoints.require(run.thread_id, base_checkpoint_of(run.kwargs.get("config") or {}))
        return Attempt(
            run,
            resumes=resumes,
            base_checkpoint=checkpoint_id,
            answer_recorded=run.attempt > 1 and run.resume is not None and await self._has_recorded_answer(run),
            stream_models=self._registry.stream_models(run.graph_id),
        )

    async def _has_recorded_answer(self, run: Run) -> bool:
        """Whether an earlier attempt has recorded what the run answers. If it has, that is one of the run's first
        entries."""
        cursor = run.queued_seq
        while entries := await self._storage.log.read(run.thread_id, cursor, limit=_PAGE, run_id=run.run_id):
            if any(entry.kind == Kind.INPUT_ANSWERED for entry in entries):
                return True
            cursor = entries[-1].seq
        return False

    async def _execute(self, run: Run, execution: Execution) -> Ending:
        """Runs on the user loop."""
        current_attempt.set(run.fence)
        saver = self._checkpoints.saver_of(run)
        try:
            context = run.kwargs.get("context") or None
            store = self._store.for_owner(run.owner)
            async with self._registry.open(run.graph_id, execution.config, store=store, context=context) as graph:
                return await execution.drive(graph, saver, store)
        except asyncio.CancelledError:  # requested, or raised by the graph itself; the caller can tell which
            raise
        except BaseException as error:
            # Raised by the graph, or by a factory that wraps the graph and has seen its error.
            return execution.failed(error)

    async def _end(self, running: _Running, ending: Ending | None) -> None:
        run = running.run
        if ending is None or ending.status != "success":
            self._hold_thread_while_busy(run)
        if ending is None or running.action == "rollback":  # promised to the client, even if the graph ended first
            ending = self._stopped(running)
        now = self._clock()
        if ending is None:
            await self._storage.runs.release(run.fence, now)
        else:
            ending = await self._finish(run, ending, now)
            self.ended[ending.status] += 1
            self._log_end(running, ending)

    async def _finish(self, run: Run, ending: Ending, now: int) -> Ending:
        """Store the ending. Return the ending that was stored, which may differ."""
        try:
            if ending.rollback:
                await self._checkpoints.forget_run(run.run_id)
            await self._storage.runs.finish(run.fence, ending, now)
        except RollbackDue:  # requested just now; this worker has not been notified yet
            return await self._finish(run, _ROLLED_BACK, now)
        except StorageError as error:  # some of the run's output could not be stored, so it has not succeeded
            failed = Ending(status="error", error=self._messages.describe(error, run.run_id))
            await self._storage.runs.finish(run.fence, failed, now, force=ending.rollback)
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

    def _hold_thread_while_busy(self, run: Run) -> None:
        """Start no further run on the thread while a cancelled sync node of this one is still executing. (Whatever a
        successful run leaves behind is not a node.)"""
        loop = asyncio.get_running_loop()
        release = partial(self._release_thread, run.thread_id)
        if not self._loop.threads.when_idle(run.fence, lambda: loop.call_soon_threadsafe(release)):
            self._held_threads[run.thread_id] += 1

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
