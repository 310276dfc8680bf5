"""Builds the engine and runs its background tasks. Each part lives as long as the block that opens it."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import structlog

from threadwire.engine.assistants import Assistants
from threadwire.engine.beginnings import Beginnings
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.clock import Clock, system_clock
from threadwire.engine.crons import Crons, Scheduler
from threadwire.engine.deliveries import Deliverer, NoWebhooks, Webhooks
from threadwire.engine.expiry import Expiry, ExpirySweeper
from threadwire.engine.follow import Followers
from threadwire.engine.graph_reads import GraphReads
from threadwire.engine.log_queries import LogQueries
from threadwire.engine.runs import Runs
from threadwire.engine.store import Store, sweep_forever
from threadwire.engine.sweeping import Sweeper
from threadwire.engine.threads import Threads
from threadwire.engine.worker import Worker
from threadwire.errors import LoopDied, ThreadwireError
from threadwire.graphs.memory import Memory
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.store import StoreHome
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.engine")

_Task = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Engine:
    """The interface the protocols use."""

    assistants: Assistants
    threads: Threads
    beginnings: Beginnings
    runs: Runs
    log: LogQueries
    crons: Crons
    store: Store
    worker: Worker
    registry: GraphRegistry
    loops: tuple[UserLoop, ...]
    storage: Storage

    @property
    def death(self) -> ThreadwireError | None:
        """The error that ends the engine: graphs can no longer be called, or nothing can be stored."""
        return self.storage.death or (LoopDied() if any(loop.is_dead for loop in self.loops) else None)

    async def use_graphs(self, fresh: GraphRegistry) -> None:
        """Use these graphs for new runs and reads. Active runs finish with the code they started with."""
        self.registry.become(fresh)
        await self.assistants.ensure_graphs()


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts shared by the engine's services and its background tasks."""

    storage: Storage
    registry: GraphRegistry
    work_loop: UserLoop
    read_loop: UserLoop
    checkpointing: Checkpointing
    store: StoreHome
    followers: Followers
    worker: Worker
    webhooks: Webhooks
    expiry: Expiry
    clock: Clock


@asynccontextmanager
async def open_engine(
    storage: Storage,
    registry: GraphRegistry,
    memory: Memory,
    *,
    capacity: int = 64,
    drain: float = 0,
    keep_temporary: float = 120,
    webhooks: Webhooks = NoWebhooks(),  # noqa: B008 - it has no state
    expiry: Expiry | None = None,
    clock: Clock = system_clock,
) -> AsyncIterator[Engine]:
    """Recover the runs of a crashed process, then serve until the block ends. A fatal error propagates from the block.
    The logs of temporary runs stay readable for `keep_temporary` seconds.

    On exit, the engine accepts no new work, gives active runs `drain` seconds to finish, and releases the rest
    uncharged.
    """
    with ExitStack() as loops:
        work_loop, read_loop = _open_loops(loops, memory)
        async with (
            memory.open_saver(work_loop) as saver,
            memory.open_store(work_loop, storage.items, clock) as store,
        ):
            checkpointing = Checkpointing(storage, saver)
            parts = _Parts(
                storage=storage,
                registry=registry,
                work_loop=work_loop,
                read_loop=read_loop,
                checkpointing=checkpointing,
                store=store,
                followers=Followers(storage),
                worker=Worker(
                    storage,
                    registry,
                    work_loop,
                    checkpointing=checkpointing,
                    store=store,
                    capacity=capacity,
                    clock=clock,
                ),
                webhooks=webhooks,
                expiry=expiry or Expiry(),
                clock=clock,
            )
            engine, scheduler = _build_engine(parts)
            await engine.assistants.ensure_graphs()
            await _recover(storage, checkpointing, clock)
            background: list[_Task] = [
                scheduler.work,
                partial(sweep_forever, storage.items, memory.ttl.sweep_every, clock),
                *_background_tasks(parts, keep_temporary),
            ]
            async with _running(engine, background, drain):
                yield engine


def _open_loops(loops: ExitStack, memory: Memory) -> tuple[UserLoop, UserLoop]:
    """Open the loops for runs and for reads."""
    work_loop = loops.enter_context(UserLoop("worker"))
    # A custom checkpointer or store belongs to one loop, so reads through it must use that loop too.
    read_loop = work_loop if memory.is_brought else loops.enter_context(UserLoop("reads"))
    return work_loop, read_loop


def _build_engine(parts: _Parts) -> tuple[Engine, Scheduler]:
    storage, registry, checkpointing, clock = parts.storage, parts.registry, parts.checkpointing, parts.clock
    followers, worker, store, default_ttl = parts.followers, parts.worker, parts.store, parts.expiry.default_ttl
    graph_access = GraphReads(registry, parts.read_loop, store)
    threads = Threads(storage, registry, graph_access, worker, checkpointing, store, followers, clock, default_ttl)
    assistants = Assistants(storage, registry, graph_access, threads, clock)
    runs = Runs(storage, assistants, followers, worker, checkpointing, parts.webhooks, clock, default_ttl)
    scheduler = Scheduler(storage, runs, clock)
    engine = Engine(
        assistants=assistants,
        threads=threads,
        beginnings=Beginnings(storage, registry, threads, checkpointing, store, clock, default_ttl),
        runs=runs,
        log=LogQueries(storage),
        crons=Crons(storage, assistants, runs, scheduler, clock),
        store=Store(store),
        worker=worker,
        registry=registry,
        loops=(parts.work_loop, parts.read_loop),
        storage=storage,
    )
    return engine, scheduler


def _background_tasks(parts: _Parts, keep_temporary: float) -> list[_Task]:
    storage, checkpointing, followers, clock = parts.storage, parts.checkpointing, parts.followers, parts.clock
    return [
        Deliverer(storage, parts.webhooks, clock).work,
        Sweeper(storage, checkpointing, followers, clock, keep=keep_temporary).work,
        ExpirySweeper(storage, checkpointing, followers, parts.expiry, clock).work,
    ]


@asynccontextmanager
async def _running(engine: Engine, background: Sequence[_Task], drain: float) -> AsyncIterator[None]:
    """Run the worker and the background tasks for the length of the block, then drain the worker."""
    async with anyio.create_task_group() as tasks, anyio.create_task_group() as upkeep:
        tasks.start_soon(engine.worker.work)
        for loop in engine.loops:
            upkeep.start_soon(loop.lives)
        upkeep.start_soon(engine.storage.lives)
        for task in background:
            upkeep.start_soon(task)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                # A failed storage would store nothing that a run still does.
                await engine.worker.drain(drain if engine.storage.death is None else 0)
            upkeep.cancel_scope.cancel()


async def _recover(storage: Storage, checkpointing: Checkpointing, clock: Clock) -> None:
    for run in await storage.runs.recover(clock()):
        logger.warning("run_recovered", run_id=run.run_id, status=run.status, crashes=run.crashes)
        if run.cancel == "rollback":
            await checkpointing.forget_run(run.run_id)
