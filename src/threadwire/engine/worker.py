"""Claim a run, carry it out, end it. One worker per process; its runs share the user loop."""

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

from threadwire.core.configuration import base_of
from threadwire.core.entries import Draft, Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CancelAction, Ending, Run
from threadwire.core.run_state import user_interrupt
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.clock import Clock, seconds_until
from threadwire.errors import GraphUnavailable, LoopDied, LoopGivenUp, NotFound, RollbackDue, StorageError
from threadwire.graphs.current_attempt import current_attempt
from threadwire.graphs.execution import Attempt, Execution, describe
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.store import StoreHome
from threadwire.graphs.user_loop import UserLoop, WorkCancelled
from threadwire.storage.abc import Log, Storage

logger = structlog.get_logger("threadwire.worker")

STOPPED_WITHIN = 2.0
"""Seconds that a run which a shutdown cancels has to stop. Its code may block, or pass over the cancellation."""


_ROLLED_BACK = Ending(status="interrupted", rollback=True)


@dataclass(slots=True)
class _Running:
    run: Run
    scope: anyio.CancelScope
    action: CancelAction | None = None
    execution: Execution | None = None
    """Once it is known what the attempt starts from."""


class LogRecorder:
    """An attempt's pen: what it records goes to its thread's log under its fence."""

    def __init__(self, log: Log, thread_id: ThreadId, fence: Fence) -> None:
        self._log = log
        self._thread_id = thread_id
        self._fence = fence

    def record(self, drafts: Sequence[Draft]) -> None:
        if drafts:
            self._log.append(self._thread_id, drafts, self._fence)

    @property
    def crowded(self) -> bool:
        return self._log.crowded

    async def room(self) -> None:
        await self._log.room()


class Worker:
    def __init__(
        self,
        storage: Storage,
        registry: GraphRegistry,
        loop: UserLoop,
        *,
        checkpointing: Checkpointing,
        store: StoreHome,
        capacity: int,
        clock: Clock,
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._checkpointing = checkpointing
        self._store = store
        self._loop = loop
        self.capacity = capacity
        self._clock = clock
        self._running: dict[RunId, _Running] = {}
        self._asked_to_stop: dict[RunId, CancelAction] = {}
        self._untouchable: Counter[ThreadId] = Counter()
        """Threads on which no run may begin, for how many reasons."""
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self._draining = False
        self._reserved = 0
        self._claiming = False
        self._nobody_waits = False
        """There was no pending run when the queue was last looked at, and nobody has hinted since."""
        self._tasks: TaskGroup | None = None
        self.ended: Counter[str] = Counter()
        """How many runs ended in each way since the start."""

    @contextmanager
    def place_for(self, thread_id: ThreadId) -> Iterator[Callable[[Run], None] | None]:
        """Keep a place free while a run is being accepted, so that it can be begun at once. Yields what begins it, or
        None if there is no place."""
        free = not self._draining and self._tasks is not None and self._free > 0 and thread_id not in self._untouchable
        reserved = int(free)
        self._reserved += reserved

        def begin(run: Run) -> None:
            nonlocal reserved
            self._reserved -= reserved  # it takes the place up itself now, and may be long in being accepted
            reserved = 0
            self.begin(run)

        try:
            yield begin if free else None
        finally:
            self._reserved -= reserved
            if reserved and not self._nobody_waits:  # for the place that nobody has taken
                self._wake.set()
            self._forget_requests()
            self._quiet.set()

    @contextmanager
    def keeping_free(self, thread_id: ThreadId) -> Iterator[None]:
        """Begin no run of this thread meanwhile. One that is being accepted may still begin, so look afterwards, behind
        it in the storage's queue, whether the thread is free."""
        self._untouchable[thread_id] += 1
        try:
            yield
        finally:
            self._touchable(thread_id)

    def _touchable(self, thread_id: ThreadId) -> None:
        self._untouchable[thread_id] -= 1
        if not self._untouchable[thread_id]:
            del self._untouchable[thread_id]
        self._wake.set()

    def begin(self, run: Run) -> None:
        """Carry out a run that is claimed already."""
        assert self._tasks is not None, "a worker begins runs only while it works"
        running = self._running[run.run_id] = _Running(run, anyio.CancelScope())
        if run.run_id in self._asked_to_stop:
            self.stop(run.run_id, self._asked_to_stop.pop(run.run_id))
        if self._draining:  # it was accepted while the shutdown began: it is released for the next start
            running.scope.cancel()
        self._tasks.start_soon(self._carry_out, run)

    @property
    def _free(self) -> int:
        return self.capacity - len(self._running) - self._reserved

    def hint(self) -> None:
        """There may be work. May be called for nothing."""
        self._wake.set()

    def stop(self, run_id: RunId, action: CancelAction) -> None:
        """Stop a run whose cancellation is already noted on its row. One that is not known is over, or about to be
        begun."""
        if (running := self._running.get(run_id)) is not None:
            running.action = running.action or action
            running.scope.cancel()
        elif self._claiming or self._reserved:
            self._asked_to_stop[run_id] = action

    def _forget_requests(self) -> None:
        """What nobody is about to begin need not be stopped."""
        if not self._claiming and not self._reserved:
            self._asked_to_stop.clear()

    async def gone(self, run_id: RunId) -> None:
        """Return once the run is not being carried out any more."""
        while run_id in self._running:
            self._quiet.clear()
            await self._quiet.wait()

    async def work(self) -> None:
        """Claim and carry out runs until drained."""
        async with anyio.create_task_group() as self._tasks:
            while not self._draining:
                self._wake.clear()
                self._nobody_waits = False
                await self._begin_claimed()
                await self._wait_for_work()
            while self._reserved:  # somebody may still begin a run, and needs the group for it
                self._quiet.clear()
                await self._quiet.wait()

    async def drain(self, grace: float) -> None:
        """Take no new work; let what runs end within `grace` seconds; stop and release the rest, uncharged. What does
        not stop is released too: it may go on, but no longer holds its thread, so nothing it writes is taken."""
        self._draining = True
        self._wake.set()
        with anyio.move_on_after(grace):
            await self._nothing_runs()
        for running in self._running.values():
            running.scope.cancel()
        with anyio.move_on_after(STOPPED_WITHIN):
            await self._nothing_runs()
        if self._running:
            self._give_up()
            await self._nothing_runs()

    async def _nothing_runs(self) -> None:
        while self._running:
            self._quiet.clear()
            await self._quiet.wait()

    def _give_up(self) -> None:
        node, place = self._loop.blocked_at()
        if place is not None:
            logger.warning("worker_given_up", loop=self._loop.name, node=node, at=place)
        for running in self._running.values():
            at = running.execution.next if running.execution is not None else ()
            logger.warning("run_did_not_stop", nodes=list(at), **_facts(running.run))
        self._loop.give_up()

    async def _begin_claimed(self) -> None:
        if self._free <= 0:
            return
        self._claiming = True
        try:
            but_not = frozenset(self._untouchable)
            for run in await self._storage.runs.claim(self._free, now=self._clock(), but_not=but_not):
                self.begin(run)
        finally:
            self._claiming = False
            self._forget_requests()

    async def _wait_for_work(self) -> None:
        """Until a hint, or until the next run is due."""
        # Not by the clock for threads that must not be touched: there is a hint when they may be again.
        due = await self._storage.runs.next_due(but_not=frozenset(self._untouchable))
        if due is None:
            self._nobody_waits = not (await self._storage.runs.count_active())["pending"]
        with anyio.move_on_after(seconds_until(due if self._free > 0 else None, self._clock())):
            await self._wake.wait()

    async def _carry_out(self, run: Run) -> None:
        try:
            await self._carry_through(self._running[run.run_id])
        finally:
            del self._running[run.run_id]
            if not self._nobody_waits:  # for its thread, or for a place
                self._wake.set()
            self._quiet.set()

    async def _carry_through(self, running: _Running) -> None:
        run = running.run
        ending: Ending | None = None
        try:
            with running.scope:
                recorder = LogRecorder(self._storage.log, run.thread_id, run.fence)
                execution = running.execution = Execution(await self._attempt(run), recorder)
                ending = await self._loop.run(partial(self._execute, run, execution))
        except WorkCancelled as error:
            ending = Ending(status="error", error={"error": "CancelledError", "message": str(error)})
        except LoopGivenUp:  # it is released, or ends as it was asked to
            pass
        except LoopDied:  # the run stays as it is, for the next start to recover
            raise
        except (GraphUnavailable, NotFound) as error:
            ending = Ending(status="error", error=describe(error))
        except Exception as error:
            logger.exception("run_failed_outside_its_graph", run_id=run.run_id)
            ending = Ending(status="error", error=describe(error))
        with anyio.CancelScope(shield=True):
            await self._end(running, ending)

    async def _attempt(self, run: Run) -> Attempt:
        newest = await self._checkpointing.newest_before(run)
        checkpoint_id, made_by = newest if newest is not None else (None, None)
        goes_on = made_by == run.run_id
        if not goes_on:  # it was there when the run was accepted, but others may have been rolled back since
            await self._checkpointing.require(run.thread_id, base_of(run.kwargs.get("config") or {}))
        return Attempt(
            run,
            goes_on=goes_on,
            base_checkpoint=checkpoint_id,
            stream_models=self._registry.stream_models(run.graph_id),
        )

    async def _execute(self, run: Run, execution: Execution) -> Ending:
        """On the user loop."""
        current_attempt.set(run.fence)
        saver = self._checkpointing.saver_of(run)
        try:
            context = run.kwargs.get("context") or None
            store = self._store.of(run.owner)
            async with self._registry.open(run.graph_id, execution.config, store=store, context=context) as graph:
                return await execution.drive(graph, saver, store)
        except asyncio.CancelledError:  # somebody's wish, or the graph's own: whoever cancels knows
            raise
        except BaseException as error:
            # The graph's code raised it, or a factory's around it, which has seen what the graph raised.
            return execution.failed(error)

    async def _end(self, running: _Running, ending: Ending | None) -> None:
        run = running.run
        if ending is None or ending.status != "success":
            self._linger(run)
        if ending is None or running.action == "rollback":  # which was promised, though the graph was quicker
            ending = self._stopped(running)
        now = self._clock()
        if ending is None:
            await self._storage.runs.release(run.fence, now)
        else:
            ending = await self._finish(run, ending, now)
            self.ended[ending.status] += 1
            self._log_end(run, ending)

    async def _finish(self, run: Run, ending: Ending, now: int) -> Ending:
        """How it has ended after all."""
        try:
            if ending.rollback:
                await self._checkpointing.forget_run(run.run_id)
            await self._storage.runs.finish(run.fence, ending, now)
        except RollbackDue:  # promised a moment ago, and not told to this worker yet
            return await self._finish(run, _ROLLED_BACK, now)
        except StorageError as error:  # something the run said could not be kept, so it cannot have succeeded
            failed = Ending(status="error", error=describe(error))
            await self._storage.runs.finish(run.fence, failed, now, regardless=ending.rollback)
            return failed
        return ending

    def _stopped(self, running: _Running) -> Ending | None:
        """How a cancelled run ends; None if it was cancelled by a shutdown, and so has not ended."""
        if running.action is None:
            return None
        if running.action == "rollback":
            return _ROLLED_BACK
        error = user_interrupt(running.action)
        if running.execution is None:
            return Ending(status="interrupted", error=error)
        return running.execution.interrupted(error)

    def _linger(self, run: Run) -> None:
        """Keep the thread from its next run while a cancelled sync node of this one is still at work. (What a run that
        succeeded has left going is none of its nodes.)"""
        here = asyncio.get_running_loop()
        over = partial(self._touchable, run.thread_id)
        if not self._loop.threads.when_idle(run.fence, lambda: here.call_soon_threadsafe(over)):
            self._untouchable[run.thread_id] += 1

    def _log_end(self, run: Run, ending: Ending) -> None:
        if ending.status == "error":
            logger.warning("run_ended", status="error", error=(ending.error or {}).get("error"), **_facts(run))
        else:
            logger.debug("run_ended", status=ending.status, **_facts(run))


def _facts(run: Run) -> dict[str, Any]:
    return {"run_id": run.run_id, "thread_id": run.thread_id, "graph_id": run.graph_id}
