"""Delete, prune, move and copy the checkpoints of threads and runs."""

from collections.abc import Iterable

import apsw

from threadwire.core.ids import RunId, ThreadId
from threadwire.storage.checkpoint_encoding import channel_versions, inline_channels
from threadwire.storage.sqlite.id_keys import Key, key_of, name_of
from threadwire.storage.sqlite.rows import fetch, from_text
from threadwire.storage.sqlite.transaction import Transaction

_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


def delete_checkpoints_of(db: apsw.Connection, thread_id: ThreadId, run_id: RunId) -> None:
    """Remove the checkpoints and writes of a run on a thread, in every namespace."""
    thread = key_of(thread_id)
    sql = "SELECT ns, checkpoint FROM checkpoints WHERE thread = ? AND run = ?"
    by_namespace: dict[str, set[str]] = {}
    for ns, checkpoint in fetch(db, sql, (thread, key_of(run_id))):
        by_namespace.setdefault(ns, set()).add(checkpoint)
    for ns, checkpoints in by_namespace.items():
        _remove(db, thread, ns, checkpoints)
    db.execute("DELETE FROM checkpoint_writes WHERE thread = ? AND run = ?", (thread, key_of(run_id)))


def delete_thread(thread_id: str, transaction: Transaction) -> None:
    for table in _TABLES:
        transaction.db.execute(f"DELETE FROM {table} WHERE thread = ?", (key_of(thread_id),))


def delete_for_runs(run_ids: Iterable[str], transaction: Transaction) -> None:
    for run_id in run_ids:
        sql = "SELECT DISTINCT thread FROM checkpoints WHERE run = ?"
        for (thread,) in fetch(transaction.db, sql, (key_of(run_id),)):
            delete_checkpoints_of(transaction.db, ThreadId(name_of(thread)), RunId(run_id))


def copy_thread(source: str, target: str, transaction: Transaction) -> None:
    columns = {
        "checkpoints": "ns, checkpoint, parent, run, type, data, metadata",
        "checkpoint_blobs": "ns, channel, version, type, data",
        "checkpoint_writes": "ns, checkpoint, task, idx, path, channel, type, data, run",
    }
    for table in _TABLES:
        transaction.db.execute(
            f"INSERT OR REPLACE INTO {table} SELECT ?, {columns[table]} FROM {table} WHERE thread = ?",
            (key_of(target), key_of(source)),
        )


def move_thread(db: apsw.Connection, source: str, target: str) -> None:
    for table in _TABLES:
        sql = f"UPDATE OR REPLACE {table} SET thread = ? WHERE thread = ?"
        db.execute(sql, (key_of(target), key_of(source)))


def prune(thread_ids: Iterable[str], strategy: str, transaction: Transaction) -> None:
    for thread_id in thread_ids:
        if strategy == "delete":
            delete_thread(thread_id, transaction)
        else:
            keep_latest(transaction.db, key_of(thread_id))


def keep_latest(db: apsw.Connection, thread: Key) -> bool:
    """Remove all checkpoints except the newest of every namespace and those that it needs. Returns whether any were
    removed."""
    by_namespace: dict[str, set[str]] = {}
    for ns, checkpoint in fetch(db, "SELECT ns, checkpoint FROM checkpoints WHERE thread = ?", (thread,)):
        by_namespace.setdefault(ns, set()).add(checkpoint)
    removed = False
    for ns, checkpoints in by_namespace.items():
        obsolete = checkpoints - _needed(db, thread, ns, max(checkpoints))
        removed |= bool(obsolete)
        _remove(db, thread, ns, obsolete)
    return removed


def _needed(db: apsw.Connection, thread: Key, ns: str, newest: str) -> set[str]:
    """The checkpoint itself and, if it has delta channels, its ancestors back to a stored value of each of them."""
    needed: set[str] = set()
    deltas: set[str] | None = None
    current: str | None = newest
    while current is not None:
        sql = "SELECT parent, type, data, metadata FROM checkpoints WHERE thread = ? AND ns = ? AND checkpoint = ?"
        row = fetch(db, sql, (thread, ns, current))
        if not row:
            break
        needed.add(current)
        parent, kind, data, metadata = row[0]
        if deltas is None:
            deltas = set(from_text(metadata).get("counters_since_delta_snapshot") or ())
        deltas -= _stored_channels(db, thread, ns, kind, data)
        current = parent if deltas else None
    return needed


def _stored_channels(db: apsw.Connection, thread: Key, ns: str, kind: str, data: bytes) -> set[str]:
    stored = inline_channels(kind, data)
    sql = "SELECT 1 FROM checkpoint_blobs WHERE thread = ? AND ns = ? AND channel = ? AND version = ?"
    for channel, version in channel_versions(kind, data):
        if db.execute(sql, (thread, ns, channel, version)).get is not None:
            stored.add(channel)
    return stored


def _remove(db: apsw.Connection, thread: Key, ns: str, checkpoints: set[str]) -> None:
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
    for checkpoint in checkpoints:
        sql = "SELECT parent, type, data FROM checkpoints WHERE thread = ? AND ns = ? AND checkpoint = ?"
        for parent, kind, data in fetch(db, sql, (thread, ns, checkpoint)):
            versions |= channel_versions(kind, data)
            parents.add(parent)
    for table in ("checkpoints", "checkpoint_writes"):
        sql = f"DELETE FROM {table} WHERE thread = ? AND ns = ? AND checkpoint = ?"
        db.executemany(sql, [(thread, ns, checkpoint) for checkpoint in checkpoints])
    others = "SELECT checkpoint, type, data FROM checkpoints WHERE thread = ? AND ns = ?"
    later = fetch(db, f"{others} AND checkpoint > ?", (thread, ns, min(checkpoints)))
    before = [
        row for parent in parents - {None} for row in fetch(db, f"{others} AND checkpoint = ?", (thread, ns, parent))
    ]
    for _, kind, data in [*later, *before]:
        versions -= channel_versions(kind, data)
    sql = "DELETE FROM checkpoint_blobs WHERE thread = ? AND ns = ? AND channel = ? AND version = ?"
    db.executemany(sql, [(thread, ns, channel, version) for channel, version in versions])
