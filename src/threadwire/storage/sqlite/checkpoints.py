"""LangGraph's checkpoints, in the same file and through the same queue as the thread log (section 7 of spec/log.md).

A checkpoint is a row. The values of its channels are separate rows, one for every *version* of a channel, so that a
step writes only what it changed. Small plain values are stored inline in the checkpoint, because a row of their own
would take more space than they do.

State is mutable and may change after LangGraph has passed it on, so it is serialised on the caller's thread.
"""

import inspect
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import apsw
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.channel_context import writing_channels
from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CheckpointPut, CheckpointSizes, Durability, Put, Size
from threadwire.storage.checkpoint_ids import advance_id_clock
from threadwire.storage.sqlite.checkpoint_maintenance import (
    copy_thread,
    delete_for_runs,
    delete_thread,
    prune,
)
from threadwire.storage.sqlite.keys import Key, key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, read_transaction, to_text
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.write_jobs import MAX_WRITE_THROUGH_BYTES, Operation
from threadwire.storage.sqlite.writer import Writer

_INLINE_TEXT = 64
_PAGE = 50
_LOCK_TIMEOUT = 0.1
"""Seconds that a subgraph may block its event loop while another thread uses the database."""
_ROW = "thread, ns, checkpoint, parent, type, data, metadata"


class SqliteCheckpoints:
    def __init__(self, writer: Writer, readers: Readers, serde: SerializerProtocol) -> None:
        self._writer = writer
        self._readers = readers
        self._serde = serde

    def saver(
        self, fence: Fence | None = None, durability: Durability = "async", *, empty_thread: ThreadId | None = None
    ) -> "SqliteSaver":
        return SqliteSaver(self._writer, self._readers, self._serde, fence, durability, empty_thread)

    def prepare(self, put: Put) -> "PreparedPut":
        """Serialise a put, to be executed in a later transaction; its objects may change meanwhile."""
        if isinstance(put, CheckpointPut):
            return _prepare_checkpoint(self._serde, put.config, put.checkpoint, put.metadata, put.new_versions)
        return _prepare_writes(self._serde, None, put.config, put.writes, put.task_id, put.task_path)

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


class SqliteSaver(BaseCheckpointSaver[str]):
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
        self.serde = serde  # not through the base class, which takes 20 µs to check that it is a serializer
        self._writer = writer
        self._readers = readers
        self._fence = fence
        self._durability = durability
        self._empty = empty_thread
        self._last_job = _LastJob()

    # Putting

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        job, stored = self._enqueue_checkpoint(config, checkpoint, metadata, new_versions)
        self._block(job)
        return stored

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        job, stored = self._enqueue_checkpoint(config, checkpoint, metadata, new_versions)
        await self._wait(job)
        return stored

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._block(self._enqueue_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._wait(self._enqueue_writes(config, writes, task_id, task_path))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a larger version, unique per branch, because two forks of a checkpoint must not share a blob."""
        number = 0 if current is None else int(current.partition(".")[0])
        return f"{number + 1:010}.{random.getrandbits(48):012x}"

    def _enqueue_checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> tuple[Operation[None], RunnableConfig]:
        prepared = _prepare_checkpoint(self.serde, config, checkpoint, metadata, new_versions)
        thread_id, _, ns, _ = prepared.address
        job = self._enqueue(thread_id, prepared.operation, prepared.weight)
        if ns and self._durability == "async":
            # Unlike the root's steps, the steps of a subgraph cannot be delayed: the next one starts after this (7.4).
            self._writer.write_through(_LOCK_TIMEOUT)
        return job, _config(thread_id, ns, checkpoint["id"])

    def _enqueue_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Operation[None]:
        run = None if self._fence is None else self._fence.run_id
        prepared = _prepare_writes(self.serde, run, config, writes, task_id, task_path)
        return self._enqueue(prepared.address.thread_id, prepared.operation, prepared.weight)

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

    async def wait_until_written(self) -> None:
        """Return once everything put so far would survive a crash of the process."""
        if (last := self._last_job.job) is None:
            return
        self._writer.write_through()
        if self._writer.written < last.position or last.error is not None:
            await last.wait_or_raise()

    # Getting

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        self._catch_up_blocking()
        found = self._get(config)
        if self._fence is None:
            self._writer.sync_barrier_blocking()
        return found

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        await self._catch_up()
        found = self._get(config)
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
        listing = _Listing(self.serde, config, filter or {}, before, limit)
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
        listing = _Listing(self.serde, config, filter or {}, before, limit)
        while not listing.complete:
            page = await self._readers.run_in_thread(listing.next_page)
            await self._writer.sync_barrier()
            for found in page:
                yield found

    def _get(self, config: RunnableConfig) -> CheckpointTuple | None:
        address = _address(config)
        if address.thread_id == self._empty and self._last_job.job is None:
            return None
        sql = f"SELECT {_ROW} FROM checkpoints WHERE thread = ? AND ns = ? "
        if address.checkpoint_id is None:
            sql += "ORDER BY checkpoint DESC LIMIT 1"
            bindings: tuple[Any, ...] = (address.thread, address.ns)
        else:
            sql += "AND checkpoint = ?"
            bindings = (address.thread, address.ns, address.checkpoint_id)
        with self._readers.lend() as db, read_transaction(db):
            for row in fetch(db, sql, bindings):
                advance_id_clock(row[2] if address.checkpoint_id is None else _newest(db, address))
                return _load(db, self.serde, row)
        return None

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
        self._enqueue_unfenced(partial(delete_for_runs, run_ids)).block_or_raise()

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._enqueue_unfenced(partial(delete_for_runs, run_ids)).wait_or_raise()

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._enqueue_unfenced(partial(copy_thread, source_thread_id, target_thread_id)).block_or_raise()

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._enqueue_unfenced(partial(copy_thread, source_thread_id, target_thread_id)).wait_or_raise()

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._enqueue_unfenced(partial(prune, thread_ids, strategy)).block_or_raise()

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._enqueue_unfenced(partial(prune, thread_ids, strategy)).wait_or_raise()

    def _enqueue_unfenced(self, operation: Callable[[Transaction], None]) -> Operation[None]:
        """Enqueue an operation without a fence, for operations that are not limited to the thread of the attempt."""
        job = Operation(operation, weight=MAX_WRITE_THROUGH_BYTES)
        self._writer.enqueue(job, urgent=True)
        return job


# LangGraph inspects the signatures of a saver's methods for every run; cached here, they are computed only once.
for _method in (SqliteSaver.put_writes, SqliteSaver.aput_writes):
    setattr(_method, "__signature__", inspect.signature(_method))  # noqa: B010 - mypy does not know the attribute


class _Address(NamedTuple):
    thread_id: ThreadId
    thread: Key
    ns: str
    checkpoint_id: str | None


def _address(config: RunnableConfig) -> _Address:
    configurable = config["configurable"]
    thread_id = str(configurable["thread_id"])
    return _Address(
        ThreadId(thread_id),
        key_of(thread_id),
        configurable.get("checkpoint_ns") or "",
        get_checkpoint_id(config),
    )


def _config(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def _is_small(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-(2**63) <= value < 2**64)  # msgpack would encode larger ones as objects, which must not be inline
    return value is None or kind is bool or kind is float or (kind is str and len(value) <= _INLINE_TEXT)


# Writing


class PreparedPut(NamedTuple):
    address: _Address
    operation: Callable[[Transaction], None]
    weight: int


def _prepare_checkpoint(
    serde: SerializerProtocol,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> PreparedPut:
    address = _address(config)
    blobs: list[Any] = []
    inline: dict[str, Any] = {}
    size = 0
    values = checkpoint["channel_values"].items()
    with writing_channels(values):
        for channel, value in values:
            if _is_small(value):
                inline[channel] = value
            elif channel in new_versions:
                kind, data = serde.dumps_typed(value)
                blobs += (address.thread, address.ns, channel, str(new_versions[channel]), kind, data)
                size += len(data)
    kind, data = serde.dumps_typed({**checkpoint, "channel_values": inline})
    described = get_checkpoint_metadata(config, metadata)
    run = described.get("run_id")
    row = (
        address.thread,
        address.ns,
        checkpoint["id"],
        address.checkpoint_id,
        None if run is None else key_of(str(run)),
        kind,
        data,
        to_text(described),
    )
    return PreparedPut(address, partial(_store_checkpoint, row, blobs), size + len(data))


def _prepare_writes(
    serde: SerializerProtocol,
    run_id: RunId | None,
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
) -> PreparedPut:
    address = _address(config)
    assert address.checkpoint_id is not None
    run = None if run_id is None else key_of(run_id)
    once: list[Any] = []
    again: list[Any] = []
    size = 0
    with writing_channels(writes):
        for index, (channel, value) in enumerate(writes):
            idx = WRITES_IDX_MAP.get(channel, index)
            kind, data = serde.dumps_typed(value)
            size += len(data)
            # A task that runs again does not overwrite its earlier writes, except errors and interrupts.
            (once if idx >= 0 else again).extend(
                (address.thread, address.ns, address.checkpoint_id, task_id, idx, task_path, channel, kind, data, run)
            )
    return PreparedPut(address, partial(_store_writes, once, again), size)


def _store_checkpoint(row: tuple[Any, ...], blobs: Sequence[Any], transaction: Transaction) -> None:
    transaction.insert("INSERT OR REPLACE INTO checkpoints", 8, row)
    transaction.insert("REPLACE INTO checkpoint_blobs", 6, blobs)


def _store_writes(once: Sequence[Any], again: Sequence[Any], transaction: Transaction) -> None:
    transaction.insert("INSERT OR IGNORE INTO checkpoint_writes", 10, once)
    transaction.insert("REPLACE INTO checkpoint_writes", 10, again)


# Reading


def _newest(db: apsw.Connection, address: _Address) -> str:
    sql = "SELECT checkpoint FROM checkpoints WHERE thread = ? AND ns = ? ORDER BY checkpoint DESC LIMIT 1"
    newest: str = db.execute(sql, (address.thread, address.ns)).get
    return newest


def _load(db: apsw.Connection, serde: SerializerProtocol, row: tuple[Any, ...]) -> CheckpointTuple:
    thread, ns, checkpoint_id, parent, kind, data, metadata = row
    thread_id = name_of(thread)
    checkpoint: Checkpoint = serde.loads_typed((kind, data))
    checkpoint["channel_values"] = _values(db, serde, thread, ns, checkpoint)
    return CheckpointTuple(
        config=_config(thread_id, ns, checkpoint_id),
        checkpoint=checkpoint,
        metadata=cast("CheckpointMetadata", from_text(metadata)),
        parent_config=None if parent is None else _config(thread_id, ns, parent),
        pending_writes=_writes(db, serde, thread, ns, checkpoint_id),
    )


def _values(
    db: apsw.Connection, serde: SerializerProtocol, thread: Key, ns: str, checkpoint: Checkpoint
) -> dict[str, Any]:
    inline = checkpoint["channel_values"]
    blob_keys = [
        part
        for channel, version in checkpoint["channel_versions"].items()
        if channel not in inline
        for part in (channel, str(version))
    ]
    values = dict(inline)
    for at in range(0, len(blob_keys), 100):
        part = blob_keys[at : at + 100]
        for channel, kind, data in fetch(db, _blobs_sql(len(part) // 2), (thread, ns, *part)):
            values[channel] = serde.loads_typed((kind, data))
    return values


@lru_cache(maxsize=64)
def _blobs_sql(channels: int) -> str:
    wanted = ", ".join(["(?, ?)"] * channels)
    return f"""SELECT channel, type, data FROM checkpoint_blobs
                WHERE thread = ? AND ns = ? AND (channel, version) IN (VALUES {wanted})"""


def _writes(
    db: apsw.Connection, serde: SerializerProtocol, thread: Key, ns: str, checkpoint_id: str
) -> list[tuple[str, str, Any]]:
    # The order of `writes_sort_key`, in which a live run applies them.
    sql = """SELECT task, channel, type, data FROM checkpoint_writes
              WHERE thread = ? AND ns = ? AND checkpoint = ? ORDER BY path, task, idx"""
    return [
        (task, channel, serde.loads_typed((kind, data)))
        for task, channel, kind, data in fetch(db, sql, (thread, ns, checkpoint_id))
    ]


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


class _Listing:
    """Checkpoints, newest first. Read page by page, so that no transaction stays open between two pages."""

    def __init__(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig | None,
        metadata: dict[str, Any],
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        self._serde = serde
        self._metadata = metadata
        self._left = limit
        self._last: tuple[str, str, Key] | None = None
        self._terms, self._bindings = _selection(config, before)
        self.complete = limit is not None and limit <= 0

    def next_page(self, db: apsw.Connection) -> "list[CheckpointTuple]":
        size = _PAGE if self._left is None or self._metadata else min(_PAGE, self._left)
        found: list[CheckpointTuple] = []
        with read_transaction(db):
            rows = self._rows(db, size)
            self.complete = len(rows) < size
            for row in rows:
                if self._matches(row):
                    found.append(_load(db, self._serde, row))
                    if self._left is not None and len(found) == self._left:
                        self.complete = True
                        break
        if self._left is not None:
            self._left -= len(found)
        return found

    def _rows(self, db: apsw.Connection, size: int) -> "list[tuple[Any, ...]]":
        terms, bindings = [*self._terms], [*self._bindings]
        if self._last is not None:
            terms.append("(checkpoint, ns, thread) < (?, ?, ?)")
            bindings += self._last
        where = "WHERE " + " AND ".join(terms) if terms else ""
        sql = f"SELECT {_ROW} FROM checkpoints {where} ORDER BY checkpoint DESC, ns DESC, thread DESC LIMIT ?"
        rows = fetch(db, sql, [*bindings, size])
        if rows:
            thread, ns, checkpoint, *_ = rows[-1]
            self._last = (checkpoint, ns, thread)
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
