"""LangGraph's checkpoints, in the same file and through the same queue as the thread log (section 7 of spec/log.md).

A checkpoint is a row; the values of its channels are rows of their own, one for every *version* of a channel, so that
a step writes only what it changed. Small plain values travel inside the checkpoint, as a row would cost more than
they weigh.

State is mutable and goes on changing once LangGraph has handed it over, so it is serialised by the caller.
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

from threadwire.core.channels import writing
from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CheckpointPut, CheckpointSizes, Durability, Put, Size
from threadwire.storage.checkpoint_ids import let_new_ids_follow
from threadwire.storage.sqlite.keys import Key, key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, one_moment, to_text
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.upkeep import (
    copy_thread,
    delete_for_runs,
    delete_thread,
    prune,
)
from threadwire.storage.sqlite.works import LITTLE, Operation
from threadwire.storage.sqlite.writer import Writer

_INLINE_TEXT = 64
_PAGE = 50
_PATIENCE = 0.1
"""Seconds that a subgraph may hold up its loop, while others are at the database."""
_ROW = "thread, ns, checkpoint, parent, type, data, metadata"


class SqliteCheckpoints:
    def __init__(self, writer: Writer, readers: Readers, serde: SerializerProtocol) -> None:
        self._writer = writer
        self._readers = readers
        self._serde = serde

    def saver(
        self, fence: Fence | None = None, durability: Durability = "async", *, empty: ThreadId | None = None
    ) -> "SqliteSaver":
        return SqliteSaver(self._writer, self._readers, self._serde, fence, durability, empty)

    def storing(self, put: Put) -> "Storing":
        """What is to be done in a transaction for what was given to a saver. Made by the caller, whose objects may
        change later."""
        if isinstance(put, CheckpointPut):
            return _storing_checkpoint(self._serde, put.config, put.checkpoint, put.metadata, put.new_versions)
        return _storing_writes(self._serde, None, put.config, put.writes, put.task_id, put.task_path)

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
        return await self._readers.elsewhere(partial(_sizes, key_of(thread_id)))


class _Progress:
    """The last thing a saver has put into the queue; shared with its clones (`with_allowlist`)."""

    def __init__(self) -> None:
        self.last: Operation[None] | None = None


class SqliteSaver(BaseCheckpointSaver[str]):
    """Usable from any thread and loop. Under a fence, puts raise `Fenced` once its attempt lets go of the thread."""

    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        serde: SerializerProtocol,
        fence: Fence | None,
        durability: Durability,
        empty: ThreadId | None,
    ) -> None:
        self.serde = serde  # and not the base class's way, which takes 20 µs to find out that it can be used
        self._writer = writer
        self._readers = readers
        self._fence = fence
        self._durability = durability
        self._empty = empty
        self._progress = _Progress()

    # Putting

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        work, stored = self._take_checkpoint(config, checkpoint, metadata, new_versions)
        self._await_here(work)
        return stored

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        work, stored = self._take_checkpoint(config, checkpoint, metadata, new_versions)
        await self._await(work)
        return stored

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._await_here(self._take_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._await(self._take_writes(config, writes, task_id, task_path))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Ever larger, and different on every branch, since two forks of a checkpoint must not share a blob."""
        number = 0 if current is None else int(current.partition(".")[0])
        return f"{number + 1:010}.{random.getrandbits(48):012x}"

    def _take_checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> tuple[Operation[None], RunnableConfig]:
        storing = _storing_checkpoint(self.serde, config, checkpoint, metadata, new_versions)
        thread_id, _, ns, _ = storing.place
        work = self._take(thread_id, storing.operation, storing.weight)
        if ns and self._durability == "async":
            # Nobody can hold back the steps of a subgraph, as the root's are: they begin right after this (7.4).
            self._writer.write_through(_PATIENCE)
        return work, _config(thread_id, ns, checkpoint["id"])

    def _take_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Operation[None]:
        run = None if self._fence is None else self._fence.run_id
        storing = _storing_writes(self.serde, run, config, writes, task_id, task_path)
        return self._take(storing.place.thread_id, storing.operation, storing.weight)

    def _take(self, thread_id: ThreadId, operation: Callable[[Transaction], None], weight: int = 0) -> Operation[None]:
        fence = self._fence
        work = Operation(operation, thread_id=None if fence is None else thread_id, fence=fence, weight=weight)
        self._writer.take(work, urgent=self._durability == "sync")
        self._progress.last = work
        return work

    async def _await(self, work: Operation[None]) -> None:
        if self._durability == "sync":
            await work.kept()
        elif self._writer.crowded:
            await self._writer.room()

    def _await_here(self, work: Operation[None]) -> None:
        if self._durability == "sync":
            work.kept_here()
        elif self._writer.crowded:
            self._writer.wait_for_room_here()

    async def written(self) -> None:
        """Return once everything put so far would outlive the process."""
        if (last := self._progress.last) is None:
            return
        self._writer.write_through()
        if self._writer.written < last.position or last.error is not None:
            await last.kept()

    # Getting

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        self._catch_up_here()
        found = self._get(config)
        if self._fence is None:
            self._writer.told_here()
        return found

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        await self._catch_up()
        found = self._get(config)
        if self._fence is None:
            await self._writer.told()
        return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        self._catch_up_here()
        listing = _Listing(self.serde, config, filter or {}, before, limit)
        while not listing.complete:
            page = self._readers.here(listing.next_page)
            self._writer.told_here()
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
            page = await self._readers.elsewhere(listing.next_page)
            await self._writer.told()
            for found in page:
                yield found

    def _get(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = _place(config)
        if place.thread_id == self._empty and self._progress.last is None:
            return None
        sql = f"SELECT {_ROW} FROM checkpoints WHERE thread = ? AND ns = ? "
        if place.checkpoint_id is None:
            sql += "ORDER BY checkpoint DESC LIMIT 1"
            bindings: tuple[Any, ...] = (place.thread, place.ns)
        else:
            sql += "AND checkpoint = ?"
            bindings = (place.thread, place.ns, place.checkpoint_id)
        with self._readers.lend() as db, one_moment(db):
            for row in fetch(db, sql, bindings):
                let_new_ids_follow(row[2] if place.checkpoint_id is None else _newest(db, place))
                return _load(db, self.serde, row)
        return None

    def _catch_up_here(self) -> None:
        if (last := self._progress.last) is not None:
            last.kept_here()

    async def _catch_up(self) -> None:
        if (last := self._progress.last) is not None:
            await last.kept()

    # Removing and copying

    def delete_thread(self, thread_id: str) -> None:
        self._take(ThreadId(thread_id), partial(delete_thread, thread_id)).kept_here()

    async def adelete_thread(self, thread_id: str) -> None:
        await self._take(ThreadId(thread_id), partial(delete_thread, thread_id)).kept()

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._unfenced(partial(delete_for_runs, run_ids)).kept_here()

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._unfenced(partial(delete_for_runs, run_ids)).kept()

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._unfenced(partial(copy_thread, source_thread_id, target_thread_id)).kept_here()

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._unfenced(partial(copy_thread, source_thread_id, target_thread_id)).kept()

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._unfenced(partial(prune, thread_ids, strategy)).kept_here()

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._unfenced(partial(prune, thread_ids, strategy)).kept()

    def _unfenced(self, operation: Callable[[Transaction], None]) -> Operation[None]:
        """What spans threads is upkeep, and no attempt's business."""
        work = Operation(operation, weight=LITTLE)
        self._writer.take(work, urgent=True)
        return work


# LangGraph looks at the signatures of a saver's methods for every run; kept here, they need not be made anew.
for _method in (SqliteSaver.put_writes, SqliteSaver.aput_writes):
    setattr(_method, "__signature__", inspect.signature(_method))  # noqa: B010 - a function has no such attribute, for mypy


class _Place(NamedTuple):
    thread_id: ThreadId
    thread: Key
    ns: str
    checkpoint_id: str | None


def _place(config: RunnableConfig) -> _Place:
    configurable = config["configurable"]
    thread_id = str(configurable["thread_id"])
    return _Place(
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
        return bool(-(2**63) <= value < 2**64)  # wider ones are objects to msgpack, and a checkpoint has none in it
    return value is None or kind is bool or kind is float or (kind is str and len(value) <= _INLINE_TEXT)


# Writing


class Storing(NamedTuple):
    place: _Place
    operation: Callable[[Transaction], None]
    weight: int


def _storing_checkpoint(
    serde: SerializerProtocol,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> Storing:
    place = _place(config)
    blobs: list[Any] = []
    inline: dict[str, Any] = {}
    size = 0
    values = checkpoint["channel_values"].items()
    with writing(values):
        for channel, value in values:
            if _is_small(value):
                inline[channel] = value
            elif channel in new_versions:
                kind, data = serde.dumps_typed(value)
                blobs += (place.thread, place.ns, channel, str(new_versions[channel]), kind, data)
                size += len(data)
    kind, data = serde.dumps_typed({**checkpoint, "channel_values": inline})
    described = get_checkpoint_metadata(config, metadata)
    run = described.get("run_id")
    row = (
        place.thread,
        place.ns,
        checkpoint["id"],
        place.checkpoint_id,
        None if run is None else key_of(str(run)),
        kind,
        data,
        to_text(described),
    )
    return Storing(place, partial(_store_checkpoint, row, blobs), size + len(data))


def _storing_writes(
    serde: SerializerProtocol,
    run_id: RunId | None,
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
) -> Storing:
    place = _place(config)
    assert place.checkpoint_id is not None
    run = None if run_id is None else key_of(run_id)
    once: list[Any] = []
    again: list[Any] = []
    size = 0
    with writing(writes):
        for index, (channel, value) in enumerate(writes):
            idx = WRITES_IDX_MAP.get(channel, index)
            kind, data = serde.dumps_typed(value)
            size += len(data)
            # A task that runs again does not overwrite what it wrote; its errors and interrupts it does.
            (once if idx >= 0 else again).extend(
                (place.thread, place.ns, place.checkpoint_id, task_id, idx, task_path, channel, kind, data, run)
            )
    return Storing(place, partial(_store_writes, once, again), size)


def _store_checkpoint(row: tuple[Any, ...], blobs: Sequence[Any], transaction: Transaction) -> None:
    transaction.insert("INSERT OR REPLACE INTO checkpoints", 8, row)
    transaction.insert("REPLACE INTO checkpoint_blobs", 6, blobs)


def _store_writes(once: Sequence[Any], again: Sequence[Any], transaction: Transaction) -> None:
    transaction.insert("INSERT OR IGNORE INTO checkpoint_writes", 10, once)
    transaction.insert("REPLACE INTO checkpoint_writes", 10, again)


# Reading


def _newest(db: apsw.Connection, place: _Place) -> str:
    sql = "SELECT checkpoint FROM checkpoints WHERE thread = ? AND ns = ? ORDER BY checkpoint DESC LIMIT 1"
    newest: str = db.execute(sql, (place.thread, place.ns)).get
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
    elsewhere = [
        part
        for channel, version in checkpoint["channel_versions"].items()
        if channel not in inline
        for part in (channel, str(version))
    ]
    values = dict(inline)
    for at in range(0, len(elsewhere), 100):
        part = elsewhere[at : at + 100]
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
    # The order of `writes_sort_key`: the one in which a live run applies them.
    sql = """SELECT task, channel, type, data FROM checkpoint_writes
              WHERE thread = ? AND ns = ? AND checkpoint = ? ORDER BY path, task, idx"""
    return [
        (task, channel, serde.loads_typed((kind, data)))
        for task, channel, kind, data in fetch(db, sql, (thread, ns, checkpoint_id))
    ]


def _sizes(thread: Key, db: apsw.Connection) -> CheckpointSizes:
    """`octet_length` looks at no more of a row than its head."""
    own = "SELECT count(*), ifnull(sum(octet_length(data) + octet_length(metadata)), 0) FROM checkpoints"
    values = "SELECT channel, count(*), sum(octet_length(data)) FROM checkpoint_blobs"
    writes = "SELECT count(*), ifnull(sum(octet_length(data)), 0) FROM checkpoint_writes"
    with one_moment(db):
        [checkpoints] = fetch(db, f"{own} WHERE thread = ?", (thread,))
        channels = fetch(db, f"{values} WHERE thread = ? GROUP BY channel ORDER BY channel", (thread,))
        [pending] = fetch(db, f"{writes} WHERE thread = ?", (thread,))
    return CheckpointSizes(
        checkpoints=Size(*checkpoints),
        channels={channel: Size(versions, taken) for channel, versions, taken in channels},
        writes=Size(*pending),
    )


class _Listing:
    """Newest first, a page at a time, so that nothing stays open while the reader does something else."""

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
        with one_moment(db):
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
        """Keys are compared and never put into a query."""
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
