"""In-memory storage: all of `threadwire.storage.abc` in plain dictionaries.

It passes the same conformance suite as the database drivers, so it can replace them in any test. It is the reference
implementation: where fast and obvious conflict, it is obvious.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.records import Run
from threadwire.storage.abc import Storage
from threadwire.storage.memory.assistants import MemoryAssistants
from threadwire.storage.memory.checkpoints import MemoryCheckpoints
from threadwire.storage.memory.crons import MemoryCrons
from threadwire.storage.memory.deliveries import MemoryDeliveries
from threadwire.storage.memory.fold_snapshots import MemoryFoldSnapshots
from threadwire.storage.memory.items import MemoryItems
from threadwire.storage.memory.keys import MemoryKeys
from threadwire.storage.memory.log import MemoryLog
from threadwire.storage.memory.run_handle import MemoryRunHandle
from threadwire.storage.memory.runs import MemoryRuns
from threadwire.storage.memory.tables import Tables
from threadwire.storage.memory.threads import MemoryThreads
from threadwire.storage.memory.tickets import MemoryTickets

__all__ = ["open_memory_storage"]


@dataclass(frozen=True, slots=True)
class _MemoryStorage:
    tables: Tables
    log: MemoryLog
    threads: MemoryThreads
    runs: MemoryRuns
    assistants: MemoryAssistants
    crons: MemoryCrons
    deliveries: MemoryDeliveries
    checkpoints: MemoryCheckpoints
    items: MemoryItems
    fold_snapshots: MemoryFoldSnapshots
    keys: MemoryKeys
    tickets: MemoryTickets

    def handle(self, run: Run) -> MemoryRunHandle:
        return MemoryRunHandle(run, self.tables, self.runs)

    @property
    def fatal_error(self) -> None:
        """Always None: a memory storage cannot fail."""
        return None

    @property
    def write_error(self) -> None:
        """Always None."""
        return None

    async def wait_for_failure(self) -> None:
        await anyio.sleep_forever()


@asynccontextmanager
async def open_memory_storage(*, serializer: SerializerProtocol | None = None) -> AsyncIterator[Storage]:
    tables = Tables(serializer)
    runs = MemoryRuns(tables)
    yield _MemoryStorage(
        tables,
        MemoryLog(tables),
        MemoryThreads(tables),
        runs,
        MemoryAssistants(tables),
        MemoryCrons(tables, runs),
        MemoryDeliveries(tables),
        MemoryCheckpoints(tables),
        MemoryItems(tables),
        MemoryFoldSnapshots(tables),
        MemoryKeys(),
        MemoryTickets(),
    )
