"""A worker without the rest of the engine, for a process that only executes runs and calls graphs."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio

from threadwire.core.ids import RunId
from threadwire.core.records import Lease, Suspects
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock, system_clock
from threadwire.engine.graph_access import GraphAccess
from threadwire.engine.graph_operations import GraphTools
from threadwire.engine.leases import LeaseKeeper
from threadwire.engine.user_loops import open_loops
from threadwire.engine.worker import Worker
from threadwire.engine.workers import Claim
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import WorkerStorage


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    lease: Lease
    capacity: int
    suspects: Suspects = "one"
    reclaims: bool = True
    """Whether the worker recovers the runs of other workers that died."""


@dataclass(frozen=True, slots=True)
class WorkerEngine:
    worker: Worker
    graph_access: GraphAccess
    loop: UserLoop
    """The worker loop."""


@asynccontextmanager
async def open_worker_engine(
    storage: WorkerStorage,
    registry: GraphRegistry,
    persistence: ProjectPersistence,
    options: WorkerOptions,
    *,
    messages: ErrorMessages,
    on_stopped: Callable[[RunId], None] | None = None,
    claim: Claim | None = None,
    clock: Clock = system_clock,
) -> AsyncIterator[WorkerEngine]:
    """Claim and execute runs until the block ends. Drain the worker before that: runs that are still active when the
    block ends are cancelled. If a user loop fails, the error propagates from the block."""
    with ExitStack() as loops:
        work_loop, read_loop = open_loops(loops, persistence)
        async with (
            persistence.open_saver(work_loop) as saver,
            persistence.open_store(work_loop, storage.items, clock) as store,
        ):
            checkpoints = ThreadCheckpoints(storage, saver, messages)
            worker = Worker(
                storage,
                registry,
                work_loop,
                checkpoints=checkpoints,
                store=store,
                capacity=options.capacity,
                clock=clock,
                messages=messages,
                lease=options.lease,
                suspects=options.suspects,
                on_stopped=on_stopped,
                claim=claim,
                shares_queue=True,
            )
            leases = LeaseKeeper(storage, worker, checkpoints, clock, reclaims=options.reclaims)
            tools = GraphTools(storage, checkpoints, store, clock, messages)
            async with anyio.create_task_group() as tasks:
                for task in (worker.work, leases.work, work_loop.wait_for_failure, read_loop.wait_for_failure):
                    tasks.start_soon(task)
                yield WorkerEngine(worker, GraphAccess(registry, read_loop, tools), work_loop)
                tasks.cancel_scope.cancel()
