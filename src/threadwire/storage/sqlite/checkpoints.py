"""LangGraph's checkpoints, in the same file and through the same queue as the thread log (section 7 of spec/log.md).
What their rows contain is in `checkpoint_encoding`."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import apsw
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, get_checkpoint_id
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CheckpointSizes, Durability, Put, Run, Size
from threadwire.storage.checkpoint_encoding import Address, EncodedPut, address_of, encode_put
from threadwire.storage.checkpoint_ids import advance_id_clock
from threadwire.storage.checkpoint_saver import EncodingSaver
from threadwire.storage.sqlite.checkpoint_maintenance import (
    copy_thread,
    delete_for_runs,
    delete_thread,
    prune,
)
from threadwire.storage.sqlite.checkpoint_rows import (
    CHECKPOINT_COLUMNS,
    Portable,
    PreparedPut,
    fetch_portable,
    load,
    prepare,
)
from threadwire.storage.sqlite.id_keys import Key, key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, read_transaction
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.write_jobs import MAX_WRITE_THROUGH_BYTES, Operation
from threadwire.storage.sqlite.writer import Writer

_PAGE = 50
_LOCK_TIMEOUT = 0.1
"""Seconds that a subgraph may block its event loop while another thread uses the database."""


T = TypeVar("T")
Load: TypeAlias = Callable[[apsw.Connection, SerializerProtocol, tuple[Any, ...]], T]
"""Converts a checkpoint's row: to a checkpoint, or to what another process needs to build one."""


class SqliteCheckpoints:
    def __init__(self, writer: Writer, readers: Readers, serde: SerializerProtocol) -> None:
        self._writer = writer
        self._readers = readers
        self._serde = serde

    def saver(self, durability: Durability = "async") -> "SqliteSaver":
        return SqliteSaver(self._writer, self._readers, self._serde, None, durability, None)

    def fenced_saver(self, run: Run, fence: Fence, durability: Durability) -> "SqliteSaver":
        """Return the saver of an attempt. On a thread known to have no checkpoints, it does not query for any before
        its first put."""
        empty_thread = run.thread_id if run.is_first_on_thread else None
        return SqliteSaver(self._writer, self._readers, self._serde, fence, durability, empty_thread)

    def prepare(self, put: Put) -> PreparedPut:
        return prepare(encode_put(self._serde, put))

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        sql = "SELECT checkpoint, run FROM checkpoints WHERE thread = ? AND ns = '' ORDER BY checkpoint DESC LIMIT 1"
        with self._readers.lend() as db:
            for checkpoint, run in fetch(db, sql, (key_of(thread_id),)):
                return checkpoint, None if run is None else RunId(name_of(run))
        return None

    async def has(self, thread_id: ThreadId, checkpoint_id: str, ns: str = "") -> bool:
        sql = "SELECT 1 FROM checkpoints WHERE thread = ? AND ns = ? AND checkpoint = ?"
        with self._readers.lend() as db:
            return db.execute(sql, (key_of(thread_id), ns, checkpoint_id)).get is not None

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        return await self._readers.run_in_thread(partial(_sizes, key_of(thread_id)))


class _LastJob:
    """The last job that a saver has enqueued. Shared with its clones (`with_allowlist`)."""

    def __init__(self) -> None:
        self.job: Operation[None] | None = None


class SqliteSaver(EncodingSaver):
    """Usable on any thread and event loop. With a fence, puts raise `Fenced` if it does not hold the thread."""

    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        serde: SerializerProtocol,
        fence: Fence | None,
        durability: Durability,
        empty_thread: ThreadId | None,
    ) -> None:
        super().__init__(serde, None if fence is None else fence.run_id)
        self._writer = writer
        self._readers = readers
        self._fence = fence
        self._durability = durability
        self._empty = empty_thread
        self._last_job = _LastJob()

    # Putting

    def _store_blocking(self, put: EncodedPut) -> None:
        self._block(self.enqueue(prepare(put)))

    async def _store(self, put: EncodedPut) -> None:
        await self._wait(self.enqueue(prepare(put)))

    def _enqueue(
        self, thread_id: ThreadId, operation: Callable[[Transaction], None], weight: int = 0
    ) -> Operation[None]:
        fence = self._fence
        job = Operation(operation, thread_id=None if fence is None else thread_id, fence=fence, weight=weight)
        self._writer.enqueue(job, urgent=self._durability == "sync")
        self._last_job.job = job
        return job

    async def _wait(self, job: Operation[None]) -> None:
        if self._durability == "sync":
            await job.wait_or_raise()
        elif self._writer.queue_full:
            await self._writer.wait_for_room()

    def _block(self, job: Operation[None]) -> None:
        if self._durability == "sync":
            job.block_or_raise()
        elif self._writer.queue_full:
            self._writer.block_for_room()

    @property
    def last_job(self) -> Operation[None] | None:
        return self._last_job.job

    # Getting

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        self._catch_up_blocking()
        found = self._get(config, load)
        if self._fence is None:
            self._writer.sync_barrier_blocking()
        return found

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        await self._catch_up()
        found = self._get(config, load)
        if self._fence is None:
            await self._writer.sync_barrier()
        return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        self._catch_up_blocking()
        listing = Listing(self.serde, config, filter or {}, before, limit, load)
        while not listing.complete:
            page = self._readers.run(listing.next_page)
            self._writer.sync_barrier_blocking()
            yield from page

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        await self._catch_up()
        listing = Listing(self.serde, config, filter or {}, before, limit, load)
        while not listing.complete:
            page = await self._readers.run_in_thread(listing.next_page)
            await self._writer.sync_barrier()
            for found in page:
                yield found

    def _get(self, config: RunnableConfig, load: "Load[T]") -> T | None:
        address = address_of(config)
        if address.thread_id == self._empty and self._last_job.job is None:
            return None
        sql = f"SELECT {CHECKPOINT_COLUMNS} FROM checkpoints WHERE thread = ? AND ns = ? "
        if address.checkpoint_id is None:
            sql += "ORDER BY checkpoint DESC LIMIT 1"
            bindings: tuple[Any, ...] = (key_of(address.thread_id), address.ns)
        else:
            sql += "AND checkpoint = ?"
            bindings = (key_of(address.thread_id), address.ns, address.checkpoint_id)
        with self._readers.lend() as db, read_transaction(db):
            for row in fetch(db, sql, bindings):
                advance_id_clock(row[2] if address.checkpoint_id is None else _newest(db, address))
                return load(db, self.serde, row)
        return None

    # For worker processes, which serialize and deserialize themselves

    def enqueue(self, prepared: PreparedPut) -> Operation[None]:
        """Enqueue a serialized put."""
        job = self._enqueue(prepared.address.thread_id, prepared.operation, prepared.weight)
        if prepared.table == "checkpoints" and prepared.address.ns and self._durability == "async":
            # Unlike the root's steps, those of a subgraph cannot wait: the next one starts when this returns (7.4).
            self._writer.write_through(_LOCK_TIMEOUT)
        return job

    async def get_stored(self, config: RunnableConfig) -> tuple[Portable, str] | None:
        """Return a checkpoint, and the id of the newest one in its namespace."""
        await self._catch_up()
        address = address_of(config)
        found = self._get(config, lambda db, serde, row: (fetch_portable(db, serde, row), _newest(db, address)))
        if self._fence is None:
            await self._writer.sync_barrier()
        return found

    async def list_stored(self, page: "PageRequest") -> "StoredPage":
        """Return a page, the position after it, and whether it is the last one."""
        await self._catch_up()
        listing = Listing(self.serde, page.config, page.metadata, page.before, page.limit, fetch_portable)
        listing.last = page.last
        found = await self._readers.run_in_thread(listing.next_page)
        await self._writer.sync_barrier()
        return found, listing.last, listing.complete

    def _catch_up_blocking(self) -> None:
        if (last := self._last_job.job) is not None:
            last.block_or_raise()

    async def _catch_up(self) -> None:
        if (last := self._last_job.job) is not None:
            await last.wait_or_raise()

    # Removing and copying

    def delete_thread(self, thread_id: str) -> None:
        self._enqueue(ThreadId(thread_id), partial(delete_thread, thread_id)).block_or_raise()

    async def adelete_thread(self, thread_id: str) -> None:
        await self._enqueue(ThreadId(thread_id), partial(delete_thread, thread_id)).wait_or_raise()

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._enqueue_unfenced(partial(delete_for_runs, run_ids), essential=True).block_or_raise()

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._enqueue_unfenced(partial(delete_for_runs, run_ids), essential=True).wait_or_raise()

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._enqueue_unfenced(partial(copy_thread, source_thread_id, target_thread_id)).block_or_raise()

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._enqueue_unfenced(partial(copy_thread, source_thread_id, target_thread_id)).wait_or_raise()

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._enqueue_unfenced(partial(prune, thread_ids, strategy), essential=True).block_or_raise()

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._enqueue_unfenced(partial(prune, thread_ids, strategy), essential=True).wait_or_raise()

    def _enqueue_unfenced(
        self, operation: Callable[[Transaction], None], *, essential: bool = False
    ) -> Operation[None]:
        """Enqueue an operation without a fence, for operations that are not limited to the thread of the attempt."""
        job = Operation(operation, weight=MAX_WRITE_THROUGH_BYTES, essential=essential)
        self._writer.enqueue(job, urgent=True)
        return job


def _newest(db: apsw.Connection, address: Address) -> str:
    sql = "SELECT checkpoint FROM checkpoints WHERE thread = ? AND ns = ? ORDER BY checkpoint DESC LIMIT 1"
    newest: str = db.execute(sql, (key_of(address.thread_id), address.ns)).get
    return newest


def _sizes(thread: Key, db: apsw.Connection) -> CheckpointSizes:
    """`octet_length` reads only the header of a row."""
    own = "SELECT count(*), ifnull(sum(octet_length(data) + octet_length(metadata)), 0) FROM checkpoints"
    values = "SELECT channel, count(*), sum(octet_length(data)) FROM checkpoint_blobs"
    writes = "SELECT count(*), ifnull(sum(octet_length(data)), 0) FROM checkpoint_writes"
    with read_transaction(db):
        [checkpoints] = fetch(db, f"{own} WHERE thread = ?", (thread,))
        channels = fetch(db, f"{values} WHERE thread = ? GROUP BY channel ORDER BY channel", (thread,))
        [pending] = fetch(db, f"{writes} WHERE thread = ?", (thread,))
    return CheckpointSizes(
        checkpoints=Size(*checkpoints),
        channels={channel: Size(versions, size) for channel, versions, size in channels},
        writes=Size(*pending),
    )


StoredPage: TypeAlias = tuple[list[Portable], tuple[Any, ...] | None, bool]


class PageRequest(NamedTuple):
    """Which checkpoints a worker process lists, and the position after which the page starts."""

    config: RunnableConfig | None
    metadata: dict[str, Any]
    before: RunnableConfig | None
    limit: int | None
    last: tuple[Any, ...] | None


class Listing(Generic[T]):
    """Checkpoints, newest first. Read page by page, so that no transaction stays open between two pages."""

    def __init__(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig | None,
        metadata: dict[str, Any],
        before: RunnableConfig | None,
        limit: int | None,
        load: "Load[T]",
    ) -> None:
        self._serde = serde
        self._metadata = metadata
        self._left = limit
        self._load = load
        self.last: tuple[Any, ...] | None = None
        self._terms, self._bindings = _selection(config, before)
        self.complete = limit is not None and limit <= 0

    def next_page(self, db: apsw.Connection) -> "list[T]":
        size = _PAGE if self._left is None or self._metadata else min(_PAGE, self._left)
        found: list[T] = []
        with read_transaction(db):
            rows = self._rows(db, size)
            self.complete = len(rows) < size
            for row in rows:
                if self._matches(row):
                    found.append(self._load(db, self._serde, row))
                    if self._left is not None and len(found) == self._left:
                        self.complete = True
                        break
        if self._left is not None:
            self._left -= len(found)
        return found

    def _rows(self, db: apsw.Connection, size: int) -> "list[tuple[Any, ...]]":
        terms, bindings = [*self._terms], [*self._bindings]
        if self.last is not None:
            terms.append("(checkpoint, ns, thread) < (?, ?, ?)")
            bindings += self.last
        where = "WHERE " + " AND ".join(terms) if terms else ""
        sql = f"SELECT {CHECKPOINT_COLUMNS} FROM checkpoints {where}"
        sql += " ORDER BY checkpoint DESC, ns DESC, thread DESC LIMIT ?"
        rows = fetch(db, sql, [*bindings, size])
        if rows:
            thread, ns, checkpoint, *_ = rows[-1]
            self.last = (checkpoint, ns, thread)
        return rows

    def _matches(self, row: tuple[Any, ...]) -> bool:
        """Compare in Python, so that keys never become part of the SQL."""
        if not self._metadata:
            return True
        metadata = from_text(row[-1])
        return all(metadata.get(key) == wanted for key, wanted in self._metadata.items())


def _selection(config: RunnableConfig | None, before: RunnableConfig | None) -> "tuple[list[str], list[Any]]":
    terms: list[str] = []
    bindings: list[Any] = []
    if config is not None:
        terms.append("thread = ?")
        bindings.append(key_of(str(config["configurable"]["thread_id"])))
        if (ns := config["configurable"].get("checkpoint_ns")) is not None:
            terms.append("ns = ?")
            bindings.append(ns)
        if (wanted := get_checkpoint_id(config)) is not None:
            terms.append("checkpoint = ?")
            bindings.append(wanted)
    if before is not None and (limit := get_checkpoint_id(before)) is not None:
        terms.append("checkpoint < ?")
        bindings.append(limit)
    return terms, bindings
