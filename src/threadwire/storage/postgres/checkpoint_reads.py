"""Read stored checkpoints. Rows are fetched on the database thread; user types are deserialized on the caller's."""

from typing import Any

from asyncpg import Record
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, get_checkpoint_id
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.records import CheckpointSizes, Size
from threadwire.storage.checkpoint_encoding import (
    Address,
    StoredCheckpoint,
    assemble,
    channel_versions,
    inline_channels,
)
from threadwire.storage.postgres.access_terms import Bindings
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.json_columns import from_text
from threadwire.storage.postgres.text_columns import escaped

_PAGE = 50
_ROW = "thread, ns, checkpoint, parent, type, data, metadata"
_NEWEST = "SELECT checkpoint FROM checkpoints WHERE thread = $1 AND ns = $2 ORDER BY checkpoint DESC LIMIT 1"
_BLOBS = """
SELECT channel, type, data FROM checkpoint_blobs
 WHERE thread = $1 AND ns = $2 AND (channel, version) IN (SELECT * FROM unnest($3::text[], $4::text[]))
"""
# The order of `writes_sort_key`, in which a live run applies them.
_WRITES = """
SELECT task, channel, type, data FROM checkpoint_writes
 WHERE thread = $1 AND ns = $2 AND checkpoint = $3 ORDER BY path, task, idx
"""


def load_stored(serde: SerializerProtocol, stored: StoredCheckpoint) -> CheckpointTuple:
    return assemble(serde, name_of(stored.row[0]), stored)


async def load(db: Connection, row: Record) -> StoredCheckpoint:
    thread, ns, checkpoint_id, _, kind, data, _ = row
    inline = inline_channels(kind, data)
    wanted = [pair for pair in channel_versions(kind, data) if pair[0] not in inline]
    blobs = await db.fetch(_BLOBS, thread, ns, [c for c, _ in wanted], [v for _, v in wanted]) if wanted else []
    return StoredCheckpoint(row, blobs, await db.fetch(_WRITES, thread, ns, checkpoint_id))


async def find(db: Connection, address: Address) -> tuple[StoredCheckpoint, str] | None:
    """Return a checkpoint, and the id of the newest one of its namespace."""
    thread, ns = key_of(address.thread_id), escaped(address.ns)
    async with db.transaction(isolation="repeatable_read", readonly=True):
        newest: str | None = await db.fetchval(_NEWEST, thread, ns)
        if newest is None:
            return None
        wanted = newest if address.checkpoint_id is None else escaped(address.checkpoint_id)
        sql = f"SELECT {_ROW} FROM checkpoints WHERE thread = $1 AND ns = $2 AND checkpoint = $3"
        row = await db.fetchrow(sql, thread, ns, wanted)
        return None if row is None else (await load(db, row), newest)


async def sizes(db: Connection, thread: bytes) -> CheckpointSizes:
    own = "SELECT count(*), coalesce(sum(octet_length(data) + octet_length(metadata)), 0)::bigint FROM checkpoints"
    values = "SELECT channel, count(*), sum(octet_length(data))::bigint FROM checkpoint_blobs"
    writes = "SELECT count(*), coalesce(sum(octet_length(data)), 0)::bigint FROM checkpoint_writes"
    async with db.transaction(isolation="repeatable_read", readonly=True):
        checkpoints = await db.fetchrow(f"{own} WHERE thread = $1", thread)
        channels = await db.fetch(f"{values} WHERE thread = $1 GROUP BY channel ORDER BY channel", thread)
        pending = await db.fetchrow(f"{writes} WHERE thread = $1", thread)
    assert checkpoints is not None
    assert pending is not None
    return CheckpointSizes(
        checkpoints=Size(*checkpoints),
        channels={channel: Size(versions, size) for channel, versions, size in channels},
        writes=Size(*pending),
    )


class Listing:
    """Checkpoints, newest first. Read page by page, so that no transaction stays open between two pages."""

    def __init__(
        self,
        config: RunnableConfig | None,
        metadata: dict[str, Any],
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._before = before
        self._left = limit
        self._last: tuple[str, str, bytes] | None = None
        self.complete = limit is not None and limit <= 0

    async def next_page(self, db: Connection) -> list[StoredCheckpoint]:
        size = _PAGE if self._left is None or self._metadata else min(_PAGE, self._left)
        found: list[StoredCheckpoint] = []
        async with db.transaction(isolation="repeatable_read", readonly=True):
            rows = await self._rows(db, size)
            complete = len(rows) < size
            for row in rows:
                if self._matches(row):
                    found.append(await load(db, row))
                    if self._left is not None and len(found) == self._left:
                        complete = True
                        break
        # Only now, because the page may have to be read again.
        self.complete = complete
        if rows:
            thread, ns, checkpoint, *_ = rows[-1]
            self._last = (checkpoint, ns, thread)
        if self._left is not None:
            self._left -= len(found)
        return found

    async def _rows(self, db: Connection, size: int) -> list[Record]:
        bindings = Bindings()
        terms = self._selection(bindings)
        if self._last is not None:
            checkpoint, ns, thread = map(bindings.bind, self._last)
            terms.append(f"(checkpoint, ns, thread) < ({checkpoint}, {ns}, {thread})")
        where = "WHERE " + " AND ".join(terms) if terms else ""
        sql = f"SELECT {_ROW} FROM checkpoints {where} ORDER BY checkpoint DESC, ns DESC, thread DESC"
        rows: list[Record] = await db.fetch(f"{sql} LIMIT {bindings.bind(size)}", *bindings)
        return rows

    def _selection(self, bindings: Bindings) -> list[str]:
        terms: list[str] = []
        if self._config is not None:
            configurable = self._config["configurable"]
            terms.append(f"thread = {bindings.bind(key_of(str(configurable['thread_id'])))}")
            if (ns := configurable.get("checkpoint_ns")) is not None:
                terms.append(f"ns = {bindings.bind(escaped(ns))}")
            if (wanted := get_checkpoint_id(self._config)) is not None:
                terms.append(f"checkpoint = {bindings.bind(escaped(wanted))}")
        if self._before is not None and (limit := get_checkpoint_id(self._before)) is not None:
            terms.append(f"checkpoint < {bindings.bind(escaped(limit))}")
        return terms

    def _matches(self, row: Record) -> bool:
        """Compare in Python, so that keys never become part of the SQL."""
        if not self._metadata:
            return True
        metadata = from_text(row["metadata"])
        return all(metadata.get(key) == wanted for key, wanted in self._metadata.items())
