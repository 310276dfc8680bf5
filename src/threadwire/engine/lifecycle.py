"""Everything that lives, and how long: lifetimes are indentation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import structlog

from threadwire.engine.assistants import Assistants
from threadwire.engine.clock import Clock, system_clock
from threadwire.engine.follow import Followers
from threadwire.engine.graph_reads import GraphReads
from threadwire.engine.runs import Runs
from threadwire.engine.threads import Threads
from threadwire.engine.worker import Worker
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.engine")


@dataclass(frozen=True, slots=True)
class Engine:
    """What the protocols are given."""

    assistants: Assistants
    threads: Threads
    runs: Runs
    worker: Worker
    registry: GraphRegistry

    async def use_graphs(self, fresh: GraphRegistry) -> None:
        """Serve these graphs from now on: new runs and reads. Runs under way end with the code they began with."""
        self.registry.become(fresh)
        await self.assistants.ensure_graphs()


@asynccontextmanager
async def open_engine(
    storage: Storage,
    registry: GraphRegistry,
    *,
    capacity: int = 64,
    drain: float = 0,
    clock: Clock = system_clock,
) -> AsyncIterator[Engine]:
    """Recover what a dead process left, then serve until the block ends. A crash inside surfaces from the block.

    Leaving the block takes no new work, gives what runs `drain` seconds, and releases the rest uncharged.
    """
    with UserLoop("worker") as work, UserLoop("reads") as reads:
        worker = Worker(storage, registry, work, capacity=capacity, clock=clock)
        graph_reads = GraphReads(registry, reads)
        threads = Threads(storage, registry, graph_reads, worker, clock)
        assistants = Assistants(storage, registry, graph_reads, threads, clock)
        await assistants.ensure_graphs()
        for run in await storage.runs.recover(clock()):
            logger.warning("run_recovered", run_id=run.run_id, status=run.status, crashes=run.crashes)
        followers = Followers(storage.log)
        engine = Engine(
            assistants=assistants,
            threads=threads,
            runs=Runs(storage, assistants, followers, worker, clock),
            worker=worker,
            registry=registry,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.work)
            try:
                yield engine
            finally:
                with anyio.CancelScope(shield=True):
                    await worker.drain(drain)
