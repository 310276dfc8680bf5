"""Builds the engine and runs its background tasks. Each part lives as long as the block that opens it."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from threadwire.core.ids import uuid7
from threadwire.core.records import Lease, QueueLimits
from threadwire.engine.access import Authorization
from threadwire.engine.assistants import Assistants
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock, system_clock
from threadwire.engine.crons import Crons, Scheduler
from threadwire.engine.expiry import Expiry, ExpirySweeper
from threadwire.engine.external_changes import ExternalChanges, ExternalChangeWatcher
from threadwire.engine.followers import Followers
from threadwire.engine.graph_access import GraphAccess
from threadwire.engine.graph_operations import GraphTools
from threadwire.engine.join import Joins
from threadwire.engine.leases import LeaseKeeper
from threadwire.engine.log_queries import LogQueries
from threadwire.engine.remote_graph_access import RemoteGraphAccess
from threadwire.engine.runs import Runs
from threadwire.engine.store import Store, sweep_forever
from threadwire.engine.temporary_threads import TemporaryThreadSweeper
from threadwire.engine.thread_deletions import ThreadDeletions
from threadwire.engine.threads import Threads
from threadwire.engine.threads_with_history import ThreadsWithHistory
from threadwire.engine.user_loops import open_loops
from threadwire.engine.webhook_delivery import Deliverer, NoWebhooks, Webhooks
from threadwire.engine.widgets import Widgets
from threadwire.engine.worker import Worker
from threadwire.engine.worker_pool import WorkerPool
from threadwire.engine.workers import LEASE_MILLISECONDS, Workers
from threadwire.errors import LoopFailed, StorageUnavailable, ThreadwireError
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.store import StoreProvider
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage

_Task = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Engine:
    """The interface the protocols use."""

    assistants: Assistants
    threads: Threads
    deletions: ThreadDeletions
    threads_with_history: ThreadsWithHistory
    runs: Runs
    log: LogQueries
    joins: Joins
    external_changes: ExternalChanges
    crons: Crons
    store: Store
    widgets: Widgets
    worker: Workers
    leases: LeaseKeeper
    registry: GraphRegistry
    graph_access: GraphAccess
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
    deletions: ThreadDeletions
    worker: Workers
    leases: LeaseKeeper
    webhooks: Webhooks
    expiry: Expiry
    clock: Clock
    messages: ErrorMessages
    limits: QueueLimits | None
    authorization: Authorization
    is_custom: bool
    """Whether the checkpointer or the store is user-provided."""
    shares_storage: bool
    """Whether other processes have the storage open too."""


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
    authorization: Authorization | None = None,
    lease_seconds: float = LEASE_MILLISECONDS / 1000,
    worker_processes: bool = False,
    shares_storage: bool = False,
) -> AsyncIterator[Engine]:
    """Recover the runs of a crashed process, then serve until the block ends. A fatal error propagates from the block.
    The logs of temporary runs stay readable for `keep_temporary` seconds.

    With `worker_processes`, runs are executed and graphs called by the processes that connect to the engine's
    `WorkerPool`. Otherwise this process does both. With `shares_storage`, other processes have the storage open too.

    On exit, the engine accepts no new work, gives active runs `drain` seconds to finish, and releases the rest
    uncharged.
    """
    with ExitStack() as loops:
        work_loop, read_loop = open_loops(loops, persistence)
        async with (
            persistence.open_saver(work_loop) as saver,
            persistence.open_store(work_loop, storage.items, clock) as store,
        ):
            checkpoints = ThreadCheckpoints(storage, saver, messages)
            lease = Lease(f"worker {uuid7()}", round(lease_seconds * 1000))
            worker: Workers
            if worker_processes:
                worker = WorkerPool(storage, clock, lease, lambda: leases.reclaim())
            else:
                worker = Worker(
                    storage,
                    registry,
                    work_loop,
                    checkpoints=checkpoints,
                    store=store,
                    capacity=capacity,
                    clock=clock,
                    messages=messages,
                    lease=lease,
                    shares_queue=shares_storage,
                )
            leases = LeaseKeeper(storage, worker, checkpoints, clock)
            parts = _Parts(
                storage=storage,
                registry=registry,
                work_loop=work_loop,
                read_loop=read_loop,
                checkpoints=checkpoints,
                store=store,
                followers=Followers(storage),
                deletions=ThreadDeletions(),
                worker=worker,
                leases=leases,
                webhooks=webhooks,
                expiry=expiry or Expiry(),
                clock=clock,
                messages=messages or ErrorMessages(),
                limits=limits,
                authorization=authorization or Authorization(),
                is_custom=persistence.is_custom,
                shares_storage=shares_storage,
            )
            engine, scheduler = _build_engine(parts)
            await engine.assistants.ensure_graphs()
            recovered = await _recovered(storage, leases)
            background: list[_Task] = [
                leases.work,
                scheduler.work,
                partial(sweep_forever, storage.items, persistence.ttl.sweep_every, clock),
                *_background_tasks(parts, keep_temporary),
            ]
            if checkpoints.is_custom:
                watcher = ExternalChangeWatcher(engine.external_changes, parts.followers.threads_followed_whole)
                background.append(watcher.work)
            prepare = None if recovered else partial(_recover_later, engine, leases)
            async with _running(engine, background, drain, prepare):
                yield engine


def _build_engine(parts: _Parts) -> tuple[Engine, Scheduler]:
    storage, registry, checkpoints, clock = parts.storage, parts.registry, parts.checkpoints, parts.clock
    followers, worker, store, default_ttl = parts.followers, parts.worker, parts.store, parts.expiry.default_ttl
    graph_access = _graph_access(parts)
    threads = Threads(
        storage, registry, graph_access, worker, checkpoints, followers, clock, parts.deletions, default_ttl
    )
    assistants = Assistants(storage, registry, graph_access, threads, clock, shares_storage=parts.shares_storage)
    runs = Runs(storage, assistants, followers, worker, checkpoints, parts.webhooks, clock, default_ttl, parts.limits)
    scheduler = Scheduler(storage, runs, clock, parts.authorization)
    external_changes = ExternalChanges(storage, checkpoints, threads, assistants, registry.ids, clock)
    engine = Engine(
        assistants=assistants,
        threads=threads,
        deletions=parts.deletions,
        threads_with_history=ThreadsWithHistory(storage, registry, threads, checkpoints, clock, default_ttl),
        runs=runs,
        log=LogQueries(storage),
        joins=Joins(storage, followers, clock, external_changes),
        external_changes=external_changes,
        crons=Crons(storage, assistants, runs, scheduler, clock),
        store=Store(store, parts.messages),
        widgets=Widgets(storage, clock),
        worker=worker,
        leases=parts.leases,
        registry=registry,
        graph_access=graph_access,
        loops=(parts.work_loop, parts.read_loop),
        storage=storage,
    )
    return engine, scheduler


def _graph_access(parts: _Parts) -> GraphAccess:
    """If the checkpointer or the store is custom, graphs are called in this process, where both are open too."""
    tools = GraphTools(parts.storage, parts.checkpoints, parts.store, parts.clock, parts.messages)
    if isinstance(parts.worker, WorkerPool) and not parts.is_custom:
        return RemoteGraphAccess(parts.registry, parts.read_loop, tools, parts.worker)
    return GraphAccess(parts.registry, parts.read_loop, tools)


def _background_tasks(parts: _Parts, keep_temporary: float) -> list[_Task]:
    storage, checkpoints, followers, clock = parts.storage, parts.checkpoints, parts.followers, parts.clock
    return [
        Deliverer(storage, parts.webhooks, clock).work,
        TemporaryThreadSweeper(storage, checkpoints, followers, clock, keep=keep_temporary).work,
        ExpirySweeper(storage, checkpoints, followers, parts.deletions, parts.expiry, clock).work,
        followers.drop_unused_forever,
    ]


@asynccontextmanager
async def _running(
    engine: Engine, background: Sequence[_Task], drain: float, prepare: _Task | None
) -> AsyncIterator[None]:
    """Run the worker and the background tasks for the length of the block, then drain the worker."""
    async with anyio.create_task_group() as tasks, anyio.create_task_group() as upkeep:
        tasks.start_soon(engine.worker.work, prepare)
        for loop in engine.loops:
            upkeep.start_soon(loop.wait_for_failure)
        upkeep.start_soon(engine.storage.wait_for_failure)
        for task in background:
            upkeep.start_soon(task)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                # If the storage has failed, nothing that a run still does could be stored.
                await engine.worker.drain(drain if engine.storage.fatal_error is None else 0)
            upkeep.cancel_scope.cancel()


async def _recovered(storage: Storage, leases: LeaseKeeper) -> bool:
    """Recover the runs of a crashed process. Return False if the storage cannot write now."""
    if storage.write_error is not None:
        return False
    try:
        await leases.reclaim()
    except StorageUnavailable:
        return False
    return True


async def _recover_later(engine: Engine, leases: LeaseKeeper) -> None:
    """Recover runs and create default assistants before any run starts. Called if the storage could not write at
    startup."""
    await leases.reclaim()
    await engine.assistants.ensure_graphs()
