"""Delete, prune, move and copy the checkpoints of threads and runs."""

from collections.abc import Iterable

from threadwire.core.ids import RunId, ThreadId
from threadwire.storage.checkpoint_encoding import channel_versions, inline_channels
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.json_columns import from_text

_COLUMNS = {
    "checkpoints": "ns, checkpoint, parent, run, type, data, metadata",
    "checkpoint_blobs": "ns, channel, version, type, data",
    "checkpoint_writes": "ns, checkpoint, task, idx, path, channel, type, data, run",
}
_KEYS = {
    "checkpoints": "ns, checkpoint",
    "checkpoint_blobs": "ns, channel, version",
    "checkpoint_writes": "ns, checkpoint, task, idx",
}
_OTHERS = "SELECT type, data FROM checkpoints WHERE thread = $1 AND ns = $2"
_DELETE_BLOBS = """
DELETE FROM checkpoint_blobs
 WHERE thread = $1 AND ns = $2 AND (channel, version) IN (SELECT * FROM unnest($3::text[], $4::text[]))
"""


async def delete_checkpoints_of(db: Connection, thread_id: ThreadId, run_id: RunId) -> None:
    """Remove the checkpoints and writes of a run on a thread, in every namespace."""
    thread, run = key_of(thread_id), key_of(run_id)
    rows = await db.fetch("SELECT ns, checkpoint FROM checkpoints WHERE thread = $1 AND run = $2", thread, run)
    for ns, checkpoints in _by_namespace(rows).items():
        await _remove(db, thread, ns, checkpoints)
    await db.execute("DELETE FROM checkpoint_writes WHERE thread = $1 AND run = $2", thread, run)


async def delete_thread(db: Connection, thread_id: str) -> None:
    for table in _COLUMNS:
        await db.execute(f"DELETE FROM {table} WHERE thread = $1", key_of(thread_id))


async def delete_for_runs(db: Connection, run_ids: Iterable[str]) -> None:
    for run_id in run_ids:
        sql = "SELECT DISTINCT thread FROM checkpoints WHERE run = $1 ORDER BY thread"
        for (thread,) in await db.fetch(sql, key_of(run_id)):
            await delete_checkpoints_of(db, ThreadId(name_of(thread)), RunId(run_id))


async def copy_thread(db: Connection, source: str, target: str) -> None:
    for table, columns in _COLUMNS.items():
        await _make_room(db, table, source, target)
        await db.execute(
            f"INSERT INTO {table} (thread, {columns}) SELECT $2::bytea, {columns} FROM {table} WHERE thread = $1",
            key_of(source),
            key_of(target),
        )


async def move_thread(db: Connection, source: str, target: str) -> None:
    for table in _COLUMNS:
        await _make_room(db, table, source, target)
        await db.execute(f"UPDATE {table} SET thread = $2 WHERE thread = $1", key_of(source), key_of(target))


async def _make_room(db: Connection, table: str, source: str, target: str) -> None:
    """Delete the rows of the target that those of the source replace."""
    keys = _KEYS[table]
    sql = f"DELETE FROM {table} WHERE thread = $2 AND ({keys}) IN (SELECT {keys} FROM {table} WHERE thread = $1)"
    await db.execute(sql, key_of(source), key_of(target))


async def prune(db: Connection, thread_ids: Iterable[str], strategy: str) -> None:
    for thread_id in thread_ids:
        if strategy == "delete":
            await delete_thread(db, thread_id)
        else:
            await keep_latest(db, key_of(thread_id))


async def keep_latest(db: Connection, thread: bytes) -> bool:
    """Remove all checkpoints except the newest of every namespace and those that it needs. Returns whether any were
    removed."""
    removed = False
    rows = await db.fetch("SELECT ns, checkpoint FROM checkpoints WHERE thread = $1", thread)
    for ns, checkpoints in _by_namespace(rows).items():
        obsolete = checkpoints - await _needed(db, thread, ns, max(checkpoints))
        removed |= bool(obsolete)
        await _remove(db, thread, ns, obsolete)
    return removed


def _by_namespace(rows: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for ns, checkpoint in rows:
        found.setdefault(ns, set()).add(checkpoint)
    return found


async def _needed(db: Connection, thread: bytes, ns: str, newest: str) -> set[str]:
    """The checkpoint itself and, if it has delta channels, its ancestors back to a stored value of each of them."""
    sql = "SELECT parent, type, data, metadata FROM checkpoints WHERE thread = $1 AND ns = $2 AND checkpoint = $3"
    needed: set[str] = set()
    deltas: set[str] | None = None
    current: str | None = newest
    while current is not None and (row := await db.fetchrow(sql, thread, ns, current)) is not None:
        needed.add(current)
        parent, kind, data, metadata = row
        if deltas is None:
            deltas = set(from_text(metadata).get("counters_since_delta_snapshot") or ())
        deltas -= await _stored_channels(db, thread, ns, kind, data)
        current = parent if deltas else None
    return needed


async def _stored_channels(db: Connection, thread: bytes, ns: str, kind: str, data: bytes) -> set[str]:
    versions = channel_versions(kind, data)
    sql = """SELECT channel FROM checkpoint_blobs
              WHERE thread = $1 AND ns = $2 AND (channel, version) IN (SELECT * FROM unnest($3::text[], $4::text[]))"""
    rows = await db.fetch(sql, thread, ns, *_pairs(versions))
    return inline_channels(kind, data) | {channel for (channel,) in rows}


def _pairs(versions: set[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [channel for channel, _ in versions], [version for _, version in versions]


async def _remove(db: Connection, thread: bytes, ns: str, checkpoints: set[str]) -> None:
    """Remove checkpoints of one namespace, their writes, and the blobs that no other checkpoint uses.

    Of the checkpoints older than all removed ones, only the parents of removed checkpoints have to be read. A child
    inherits a version until the channel is written again. So if an older checkpoint shares a version with a removed
    one, the nearest remaining ancestor of the removed one has that version too, and this ancestor is the parent of a
    removed checkpoint.
    """
    if not checkpoints:
        return
    versions: set[tuple[str, str]] = set()
    parents: set[str] = set()
    removed = """DELETE FROM checkpoints WHERE thread = $1 AND ns = $2 AND checkpoint = ANY($3)
                 RETURNING parent, type, data"""
    for parent, kind, data in await db.fetch(removed, thread, ns, [*checkpoints]):
        versions |= channel_versions(kind, data)
        parents |= {parent} - {None}
    writes = "DELETE FROM checkpoint_writes WHERE thread = $1 AND ns = $2 AND checkpoint = ANY($3)"
    await db.execute(writes, thread, ns, [*checkpoints])
    sql = f"{_OTHERS} AND (checkpoint > $3 OR checkpoint = ANY($4))"
    for kind, data in await db.fetch(sql, thread, ns, min(checkpoints), [*parents]):
        versions -= channel_versions(kind, data)
    if versions:
        await db.execute(_DELETE_BLOBS, thread, ns, *_pairs(versions))
