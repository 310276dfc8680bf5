"""Builds the engine and runs its background tasks. Each part lives as long as the block that opens it."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import structlog

from threadwire.core.records import QueueLimits
from threadwire.engine.assistants import Assistants
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock, system_clock
from threadwire.engine.crons import Crons, Scheduler
from threadwire.engine.expiry import Expiry, ExpirySweeper
from threadwire.engine.follow import Followers
from threadwire.engine.graph_access import GraphAccess
from threadwire.engine.join import Joins
from threadwire.engine.log_queries import LogQueries
from threadwire.engine.runs import Runs
from threadwire.engine.seeded_threads import SeededThreads
from threadwire.engine.store import Store, sweep_forever
from threadwire.engine.temporary_threads import TemporaryThreadSweeper
from threadwire.engine.threads import Threads
from threadwire.engine.webhook_delivery import Deliverer, NoWebhooks, Webhooks
from threadwire.engine.widgets import Widgets
from threadwire.engine.worker import Worker
from threadwire.errors import LoopFailed, ThreadwireError
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.store import StoreProvider
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.engine")

_Task = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Engine:
    """The interface the protocols use."""

    assistants: Assistants
    threads: Threads
    seeded_threads: SeededThreads
    runs: Runs
    log: LogQueries
    joins: Joins
    crons: Crons
    store: Store
    widgets: Widgets
    worker: Worker
    registry: GraphRegistry
    loops: tuple[UserLoop, ...]
    storage: Storage

    @property
    def fatal_error(self) -> ThreadwireError | None:
        """The error that ends the engine: graphs can no longer be called, or nothing can be stored."""
        return self.storage.fatal_error or (LoopFailed() if any(loop.has_failed for loop in self.loops) else None)

    async def use_graphs(self, fresh: GraphRegistry) -> None:
        """Use these graphs for new runs and reads. Active runs finish with the code they started with."""
        self.registry.replace_with(fresh)
        await self.assistants.ensure_graphs()


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts shared by the engine's services and its background tasks."""

    storage: Storage
    registry: GraphRegistry
    work_loop: UserLoop
    read_loop: UserLoop
    checkpoints: ThreadCheckpoints
    store: StoreProvider
    followers: Followers
    worker: Worker
    webhooks: Webhooks
    expiry: Expiry
    clock: Clock
    messages: ErrorMessages
    limits: QueueLimits | None


@asynccontextmanager
async def open_engine(
    storage: Storage,
    registry: GraphRegistry,
    persistence: ProjectPersistence,
    *,
    capacity: int = 1000,
    limits: QueueLimits | None = None,
    drain: float = 0,
    keep_temporary: float = 120,
    webhooks: Webhooks = NoWebhooks(),  # noqa: B008 - it has no state
    expiry: Expiry | None = None,
    clock: Clock = system_clock,
    messages: ErrorMessages | None = None,
) -> AsyncIterator[Engine]:
    """Recover the runs of a crashed process, then serve until the block ends. A fatal error propagates from the block.
    The logs of temporary runs stay readable for `keep_temporary` seconds.

    On exit, the engine accepts no new work, gives active runs `drain` seconds to finish, and releases the rest
    uncharged.
    """
    with ExitStack() as loops:
        work_loop, read_loop = _open_loops(loops, persistence)
        async with (
            persistence.open_saver(work_loop) as saver,
            persistence.open_store(work_loop, storage.items, clock) as store,
        ):
            checkpoints = ThreadCheckpoints(storage, saver)
            parts = _Parts(
                storage=storage,
                registry=registry,
                work_loop=work_loop,
                read_loop=read_loop,
                checkpoints=checkpoints,
                store=store,
                followers=Followers(storage),
                worker=Worker(
                    storage,
                    registry,
                    work_loop,
                    checkpoints=checkpoints,
                    store=store,
                    capacity=capacity,
                    clock=clock,
                    messages=messages,
                ),
                webhooks=webhooks,
                expiry=expiry or Expiry(),
                clock=clock,
                messages=messages or ErrorMessages(),
                limits=limits,
            )
            engine, scheduler = _build_engine(parts)
            await engine.assistants.ensure_graphs()
            await _recover(storage, checkpoints, clock)
            background: list[_Task] = [
                scheduler.work,
                partial(sweep_forever, storage.items, persistence.ttl.sweep_every, clock),
                *_background_tasks(parts, keep_temporary),
            ]
            async with _running(engine, background, drain):
                yield engine


def _open_loops(loops: ExitStack, persistence: ProjectPersistence) -> tuple[UserLoop, UserLoop]:
    """Open the loops for runs and for reads."""
    work_loop = loops.enter_context(UserLoop("worker"))
    # A custom checkpointer or store belongs to one loop, so reads through it must use that loop too.
    read_loop = work_loop if persistence.is_custom else loops.enter_context(UserLoop("reads"))
    return work_loop, read_loop


def _build_engine(parts: _Parts) -> tuple[Engine, Scheduler]:
    storage, registry, checkpoints, clock = parts.storage, parts.registry, parts.checkpoints, parts.clock
    followers, worker, store, default_ttl = parts.followers, parts.worker, parts.store, parts.expiry.default_ttl
    graph_access = GraphAccess(registry, parts.read_loop, store, parts.messages)
    threads = Threads(storage, registry, graph_access, worker, checkpoints, store, followers, clock, default_ttl)
    assistants = Assistants(storage, registry, graph_access, threads, clock)
    runs = Runs(storage, assistants, followers, worker, checkpoints, parts.webhooks, clock, default_ttl, parts.limits)
    scheduler = Scheduler(storage, runs, clock)
    engine = Engine(
        assistants=assistants,
        threads=threads,
        seeded_threads=SeededThreads(storage, registry, threads, checkpoints, store, clock, default_ttl),
        runs=runs,
        log=LogQueries(storage),
        joins=Joins(storage, followers, clock),
        crons=Crons(storage, assistants, runs, scheduler, clock),
        store=Store(store, parts.messages),
        widgets=Widgets(storage, clock),
        worker=worker,
        registry=registry,
        loops=(parts.work_loop, parts.read_loop),
        storage=storage,
    )
    return engine, scheduler


def _background_tasks(parts: _Parts, keep_temporary: float) -> list[_Task]:
    storage, checkpoints, followers, clock = parts.storage, parts.checkpoints, parts.followers, parts.clock
    return [
        Deliverer(storage, parts.webhooks, clock).work,
        TemporaryThreadSweeper(storage, checkpoints, followers, clock, keep=keep_temporary).work,
        ExpirySweeper(storage, checkpoints, followers, parts.expiry, clock).work,
    ]


@asynccontextmanager
async def _running(engine: Engine, background: Sequence[_Task], drain: float) -> AsyncIterator[None]:
    """Run the worker and the background tasks for the length of the block, then drain the worker."""
    async with anyio.create_task_group() as tasks, anyio.create_task_group() as upkeep:
        tasks.start_soon(engine.worker.work)
        for loop in engine.loops:
            upkeep.start_soon(loop.wait_for_failure)
        upkeep.start_soon(engine.storage.wait_for_failure)
        for task in background:
            upkeep.start_soon(task)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                # A failed storage would store nothing that a run still does.
                await engine.worker.drain(drain if engine.storage.fatal_error is None else 0)
            upkeep.cancel_scope.cancel()


async def _recover(storage: Storage, checkpoints: ThreadCheckpoints, clock: Clock) -> None:
    for run in await storage.runs.recover(clock()):
        logger.warning("run_recovered", run_id=run.run_id, status=run.status, crashes=run.crashes)
        if run.cancel == "rollback":
            await checkpoints.forget_run(run.run_id)
