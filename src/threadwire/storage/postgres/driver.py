"""Open a database and assemble the storage."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.records import Run
from threadwire.errors import StorageFailed, StorageUnavailable
from threadwire.storage.abc import Storage
from threadwire.storage.postgres.assistants import PostgresAssistants
from threadwire.storage.postgres.checkpoints import PostgresCheckpoints
from threadwire.storage.postgres.crons import PostgresCrons
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.deliveries import PostgresDeliveries
from threadwire.storage.postgres.flusher import Flusher
from threadwire.storage.postgres.fold_snapshots import PostgresFoldSnapshots
from threadwire.storage.postgres.heartbeats import Heartbeats
from threadwire.storage.postgres.items import PostgresItems
from threadwire.storage.postgres.keys import PostgresKeys, PostgresTickets
from threadwire.storage.postgres.log import PostgresLog
from threadwire.storage.postgres.partitions import upkeep
from threadwire.storage.postgres.publication import Publication
from threadwire.storage.postgres.run_handle import PostgresRunHandle
from threadwire.storage.postgres.runs import PostgresRuns
from threadwire.storage.postgres.schema import prepare
from threadwire.storage.postgres.threads import PostgresThreads
from threadwire.storage.serializer import strict_serializer

_CLOSE_PATIENCE = 5.0
"""Seconds for which closing waits for a lost connection, to write what is queued."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class PostgresStorage:
    def __init__(
        self,
        database: Database,
        flusher: Flusher,
        heartbeats: Heartbeats,
        publication: Publication,
        clock: Callable[[], int],
        serializer: SerializerProtocol,
    ) -> None:
        self._database = database
        self._flusher = flusher
        self._clock = clock
        self.log = PostgresLog(database, flusher, publication, clock)
        self.checkpoints = PostgresCheckpoints(database, flusher, serializer)
        self.threads = PostgresThreads(database, flusher, self.checkpoints, clock)
        self.runs = PostgresRuns(database, flusher, heartbeats, publication.queue_hints)
        self.assistants = PostgresAssistants(database)
        self.crons = PostgresCrons(database)
        self.deliveries = PostgresDeliveries(database)
        self.items = PostgresItems(database)
        self.fold_snapshots = PostgresFoldSnapshots(database)
        self.keys = PostgresKeys(database)
        self.tickets = PostgresTickets(database)
        self.fatal_error: StorageFailed | None = None
        """Never set: a lost connection is opened again."""

    def handle(self, run: Run) -> PostgresRunHandle:
        return PostgresRunHandle(run, self._flusher, self.checkpoints, self._clock)

    @property
    def write_error(self) -> StorageUnavailable | None:
        return self._database.lost or self._database.full

    async def wait_for_failure(self) -> None:
        await asyncio.Event().wait()


async def _started(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    return asyncio.ensure_future(work)


async def _stopped(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@asynccontextmanager
async def open_postgres_storage(
    dsn: str,
    *,
    clock: Callable[[], int] = now_ms,
    serializer: SerializerProtocol | None = None,
    redis: str | None = None,
) -> AsyncIterator[Storage]:
    """Open the storage in a PostgreSQL database on the running event loop. Any number of processes may do so.

    An empty database gets the schema. Raises `StorageError` if the database cannot be used. On exit everything that was
    enqueued is made durable.
    """
    await prepare(dsn)
    database = Database(dsn)
    try:
        publication = Publication(database)
        database.publisher = publication
        await database.run(publication.open(redis))
        heartbeats = Heartbeats(database)
        works = upkeep(database), heartbeats.work(), database.keep_connected()
        background = [await database.run(_started(work)) for work in works]
        flusher = Flusher(database)
        try:
            yield PostgresStorage(database, flusher, heartbeats, publication, clock, serializer or strict_serializer())
        finally:
            loop = asyncio.get_running_loop()
            giving_up = loop.call_later(_CLOSE_PATIENCE, database.give_up)
            closing = loop.run_in_executor(None, flusher.close)
            await asyncio.shield(closing)
            giving_up.cancel()
            for task in background:
                await database.run(_stopped(task))
            await database.run(publication.close())
    finally:
        database.close()
