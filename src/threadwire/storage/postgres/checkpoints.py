"""LangGraph's checkpoints, in the same transactions and through the same queue as the thread log (section 7 of
spec/log.md). What their rows contain is in `checkpoint_encoding`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CheckpointSizes, Durability, Put, Run
from threadwire.errors import Fenced
from threadwire.storage.checkpoint_encoding import EncodedCheckpoint, EncodedPut, address_of, encode_put
from threadwire.storage.checkpoint_ids import advance_id_clock
from threadwire.storage.checkpoint_saver import EncodingSaver
from threadwire.storage.postgres.checkpoint_maintenance import copy_thread, delete_for_runs, delete_thread, prune
from threadwire.storage.postgres.checkpoint_reads import Listing, find, load_stored, sizes
from threadwire.storage.postgres.checkpoint_rows import CheckpointRows
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.flusher import Flusher
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.text_columns import escaped
from threadwire.storage.postgres.transaction import Transaction
from threadwire.storage.postgres.write_jobs import Job, PutJob

_STEP_TIMEOUT = 0.1
"""Seconds that a subgraph may block its event loop until its checkpoint is written."""
_NEWEST = "SELECT checkpoint, run FROM checkpoints WHERE thread = $1 AND ns = '' ORDER BY checkpoint DESC LIMIT 1"


class PostgresCheckpoints:
    def __init__(self, database: Database, flusher: Flusher, serde: SerializerProtocol) -> None:
        self._database = database
        self._flusher = flusher
        self._serde = serde

    def saver(self, durability: Durability = "async") -> "PostgresSaver":
        return PostgresSaver(self._database, self._flusher, self._serde, None, durability, None)

    def fenced_saver(self, run: Run, fence: Fence, durability: Durability) -> "PostgresSaver":
        """Return the saver of an attempt. On a thread known to have no checkpoints, it does not query for any before
        its first put."""
        empty_thread = run.thread_id if run.is_first_on_thread else None
        return PostgresSaver(self._database, self._flusher, self._serde, fence, durability, empty_thread)

    def prepare(self, put: Put) -> CheckpointRows:
        return _rows_of(encode_put(self._serde, put))

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        row = await self._database.read(lambda db: db.fetchrow(_NEWEST, key_of(thread_id)))
        if row is None:
            return None
        checkpoint, run = row
        return checkpoint, None if run is None else RunId(name_of(run))

    async def has(self, thread_id: ThreadId, checkpoint_id: str, ns: str = "") -> bool:
        sql = "SELECT EXISTS (SELECT 1 FROM checkpoints WHERE thread = $1 AND ns = $2 AND checkpoint = $3)"
        keys = key_of(thread_id), escaped(ns), escaped(checkpoint_id)
        found: bool = await self._database.read(lambda db: db.fetchval(sql, *keys))
        return found

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        return await self._database.read(lambda db: sizes(db, key_of(thread_id)))


class _LastJob:
    """The last job that a saver has enqueued. Shared with its clones (`with_allowlist`)."""

    def __init__(self) -> None:
        self.job: Job | None = None


class PostgresSaver(EncodingSaver):
    """Usable on any thread and event loop. With a fence, puts raise `Fenced` if it does not hold the thread."""

    def __init__(
        self,
        database: Database,
        flusher: Flusher,
        serde: SerializerProtocol,
        fence: Fence | None,
        durability: Durability,
        empty_thread: ThreadId | None,
    ) -> None:
        super().__init__(serde, None if fence is None else fence.run_id)
        self._database = database
        self._flusher = flusher
        self._fence = fence
        self._durability = durability
        self._empty = empty_thread
        self._last_job = _LastJob()

    # Putting

    def _store_blocking(self, put: EncodedPut) -> None:
        self._block(self._enqueue(put))

    async def _store(self, put: EncodedPut) -> None:
        await self._wait(self._enqueue(put))

    def _enqueue(self, put: EncodedPut) -> Job:
        job = PutJob(self._flusher, put.address.thread_id, _rows_of(put), self._fence, put.weight)
        self._flusher.enqueue(job, urgent=self._durability == "sync")
        self._last_job.job = job
        if isinstance(put, EncodedCheckpoint) and put.address.ns and self._durability == "async":
            # Unlike the root's steps, the steps of a subgraph cannot be delayed: the next one starts after this (7.4).
            with suppress(TimeoutError):
                job.block(_STEP_TIMEOUT)
        return job

    async def _wait(self, job: Job) -> None:
        if self._durability == "sync":
            await job.wait()
        elif self._flusher.queue_full:
            await self._flusher.wait_for_room()

    def _block(self, job: Job) -> None:
        if self._durability == "sync":
            job.block()
        elif self._flusher.queue_full:
            self._flusher.block_for_room()

    @property
    def last_job(self) -> Job | None:
        return self._last_job.job

    # Getting

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if self._is_empty(config):
            return None
        self._catch_up_blocking()
        return self._decoded(self._database.read_blocking(lambda db: find(db, address_of(config))))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if self._is_empty(config):
            return None
        await self._catch_up()
        return self._decoded(await self._database.read(lambda db: find(db, address_of(config))))

    def _is_empty(self, config: RunnableConfig) -> bool:
        return self._last_job.job is None and address_of(config).thread_id == self._empty

    def _decoded(self, found: Any) -> CheckpointTuple | None:
        if found is None:
            return None
        stored, newest = found
        advance_id_clock(newest)
        return load_stored(self.serde, stored)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        self._catch_up_blocking()
        listing = Listing(config, filter or {}, before, limit)
        while not listing.complete:
            for stored in self._database.read_blocking(listing.next_page):
                yield load_stored(self.serde, stored)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        await self._catch_up()
        listing = Listing(config, filter or {}, before, limit)
        while not listing.complete:
            for stored in await self._database.read(listing.next_page):
                yield load_stored(self.serde, stored)

    def _catch_up_blocking(self) -> None:
        if (last := self._last_job.job) is not None:
            with suppress(Fenced):  # the put was rejected, so there is nothing of it to see
                last.block()

    async def _catch_up(self) -> None:
        if (last := self._last_job.job) is not None:
            with suppress(Fenced):
                await last.wait()

    # Removing and copying

    def delete_thread(self, thread_id: str) -> None:
        self._flusher.change_blocking(ThreadId(thread_id), self._deleting(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._flusher.change(ThreadId(thread_id), self._deleting(thread_id))

    def _deleting(self, thread_id: str) -> Callable[[Transaction], Awaitable[None]]:
        async def delete(transaction: Transaction) -> None:
            if self._fence is not None:
                await transaction.lock(ThreadId(thread_id))
                transaction.require(ThreadId(thread_id), self._fence)
            await delete_thread(transaction.db, thread_id)

        return delete

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._write_blocking(lambda db: delete_for_runs(db, run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._write(lambda db: delete_for_runs(db, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._write_blocking(lambda db: copy_thread(db, source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._write(lambda db: copy_thread(db, source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._write_blocking(lambda db: prune(db, thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._write(lambda db: prune(db, thread_ids, strategy))

    async def _write(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Execute an operation that is not limited to one thread, without a fence, after everything that was put."""
        await self._flusher.flush()
        await self._database.write(lambda transaction: work(transaction.db))

    def _write_blocking(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        self._flusher.flush_blocking()
        self._database.write_blocking(lambda transaction: work(transaction.db))


def _rows_of(put: EncodedPut) -> CheckpointRows:
    address, rows = put.address, CheckpointRows()
    thread, ns = key_of(address.thread_id), escaped(address.ns)
    run = None if put.run_id is None else key_of(put.run_id)
    if isinstance(put, EncodedCheckpoint):
        parent = address.checkpoint_id
        rows.put_checkpoint((thread, ns, put.checkpoint_id, parent, run, put.type, put.data, put.metadata))
        for blob in put.blobs:
            rows.put_blob((thread, ns, *blob))
    else:
        for write in put.writes:
            rows.put_write((thread, ns, address.checkpoint_id, *write, run))
    return rows
