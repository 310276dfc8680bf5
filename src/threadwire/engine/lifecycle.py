"""Everything that lives, and how long: lifetimes are indentation."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

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
from threadwire.engine.runs import Runs
from threadwire.engine.store import Store, sweep_forever
from threadwire.engine.sweeping import Sweeper
from threadwire.engine.threads import Threads
from threadwire.engine.worker import Worker
from threadwire.errors import LoopDied, ThreadwireError
from threadwire.graphs.memory import Memory
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.engine")


@dataclass(frozen=True, slots=True)
class Engine:
    """What the protocols are given."""

    assistants: Assistants
    threads: Threads
    beginnings: Beginnings
    runs: Runs
    crons: Crons
    store: Store
    worker: Worker
    registry: GraphRegistry
    loops: tuple[UserLoop, ...]
    storage: Storage

    @property
    def death(self) -> ThreadwireError | None:
        """What the engine has died of: graphs cannot be run or asked any more, or nothing can be kept. It ends then."""
        return self.storage.death or (LoopDied() if any(loop.is_dead for loop in self.loops) else None)

    async def use_graphs(self, fresh: GraphRegistry) -> None:
        """Serve these graphs from now on: new runs and reads. Runs under way end with the code they began with."""
        self.registry.become(fresh)
        await self.assistants.ensure_graphs()


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
    """Recover what a dead process left, then serve until the block ends. A crash inside surfaces from the block.
    What temporary runs leave can be read for `keep_temporary` seconds.

    Leaving the block takes no new work, gives what runs `drain` seconds, and releases the rest uncharged.
    """
    with ExitStack() as loops:
        work = loops.enter_context(UserLoop("worker"))
        # What the project brings belongs to one loop, so what reads through it has to go there too.
        reads = work if memory.is_brought else loops.enter_context(UserLoop("reads"))
        async with (
            memory.open_saver(work) as saver,
            memory.open_store(work, storage.items, clock) as store,
        ):
            checkpointing = Checkpointing(storage, saver)
            worker = Worker(
                storage, registry, work, checkpointing=checkpointing, store=store, capacity=capacity, clock=clock
            )
            graph_reads = GraphReads(registry, reads, store)
            followers = Followers(storage)
            expiry = expiry or Expiry()
            threads = Threads(
                storage, registry, graph_reads, worker, checkpointing, store, followers, clock, expiry.default_ttl
            )
            assistants = Assistants(storage, registry, graph_reads, threads, clock)
            await assistants.ensure_graphs()
            await _recover(storage, checkpointing, clock)
            runs = Runs(storage, assistants, followers, worker, checkpointing, webhooks, clock, expiry.default_ttl)
            scheduler = Scheduler(storage, runs, clock)
            engine = Engine(
                assistants=assistants,
                threads=threads,
                beginnings=Beginnings(storage, registry, threads, checkpointing, store, clock, expiry.default_ttl),
                runs=runs,
                crons=Crons(storage, assistants, runs, scheduler, clock),
                store=Store(store),
                worker=worker,
                registry=registry,
                loops=(work, reads),
                storage=storage,
            )
            async with anyio.create_task_group() as tasks, anyio.create_task_group() as upkeep:
                tasks.start_soon(worker.work)
                for loop in engine.loops:
                    upkeep.start_soon(loop.lives)
                upkeep.start_soon(storage.lives)
                upkeep.start_soon(sweep_forever, storage.items, memory.ttl.sweep_every, clock)
                upkeep.start_soon(scheduler.work)
                upkeep.start_soon(Deliverer(storage, webhooks, clock).work)
                upkeep.start_soon(Sweeper(storage, checkpointing, followers, clock, keep=keep_temporary).work)
                upkeep.start_soon(ExpirySweeper(storage, checkpointing, followers, expiry, clock).work)
                try:
                    yield engine
                finally:
                    with anyio.CancelScope(shield=True):
                        # Of what a run could still do, a dead storage would keep nothing.
                        await worker.drain(drain if storage.death is None else 0)
                    upkeep.cancel_scope.cancel()


async def _recover(storage: Storage, checkpointing: Checkpointing, clock: Clock) -> None:
    for run in await storage.runs.recover(clock()):
        logger.warning("run_recovered", run_id=run.run_id, status=run.status, crashes=run.crashes)
        if run.cancel == "rollback":
            await checkpointing.forget_run(run.run_id)
