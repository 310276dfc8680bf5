"""Checkpoints as rows of the database. What the rows contain is in `checkpoint_encoding`.

Rows are plain values, so that a worker process can serialize its puts, and deserialize what it reads.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import apsw
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.temporary_caches import temporary_cache
from threadwire.storage.checkpoint_encoding import (
    Address,
    EncodedCheckpoint,
    EncodedPut,
    EncodedWrites,
    StoredCheckpoint,
    assemble,
    decode_checkpoint,
)
from threadwire.storage.sqlite.id_keys import key_of, name_of
from threadwire.storage.sqlite.rows import fetch
from threadwire.storage.sqlite.transaction import Transaction

CHECKPOINT_COLUMNS = "thread, ns, checkpoint, parent, type, data, metadata"


# Writing


class PreparedPut(NamedTuple):
    """A serialized put."""

    address: Address
    table: Literal["checkpoints", "writes"]
    rows: tuple[Sequence[Any], Sequence[Any]]
    """Of a checkpoint: its own row, and those of its channels. Of writes: those that are stored once, and those that
    replace earlier ones."""
    weight: int

    def operation(self, transaction: Transaction) -> None:
        store = _store_checkpoint if self.table == "checkpoints" else _store_writes
        store(*self.rows, transaction)

    def portable(self) -> tuple[Any, ...]:
        """The put as plain values, for another process."""
        return (tuple(self.address), self.table, self.rows, self.weight)

    @staticmethod
    def of_portable(portable: tuple[Any, ...]) -> "PreparedPut":
        address, table, rows, weight = portable
        return PreparedPut(Address(*address), table, rows, weight)


def _store_checkpoint(row: Sequence[Any], blobs: Sequence[Any], transaction: Transaction) -> None:
    transaction.insert("INSERT OR REPLACE INTO checkpoints", 8, row)
    transaction.insert("REPLACE INTO checkpoint_blobs", 6, blobs)


def _store_writes(once: Sequence[Any], again: Sequence[Any], transaction: Transaction) -> None:
    transaction.insert("INSERT OR IGNORE INTO checkpoint_writes", 10, once)
    transaction.insert("REPLACE INTO checkpoint_writes", 10, again)


def prepare(put: EncodedPut) -> PreparedPut:
    return _prepare_checkpoint(put) if isinstance(put, EncodedCheckpoint) else _prepare_writes(put)


def _prepare_checkpoint(put: EncodedCheckpoint) -> PreparedPut:
    thread, ns = key_of(put.address.thread_id), put.address.ns
    run = None if put.run_id is None else key_of(put.run_id)
    row = (thread, ns, put.checkpoint_id, put.address.checkpoint_id, run, put.type, put.data, put.metadata)
    blobs = [value for blob in put.blobs for value in (thread, ns, *blob)]
    return PreparedPut(put.address, "checkpoints", (row, blobs), put.weight)


def _prepare_writes(put: EncodedWrites) -> PreparedPut:
    address = put.address
    start = (key_of(address.thread_id), address.ns, address.checkpoint_id)
    run = None if put.run_id is None else key_of(put.run_id)
    once: list[Any] = []
    again: list[Any] = []
    for write in put.writes:
        # A task that runs again does not overwrite its earlier writes, except errors and interrupts.
        (once if write.place >= 0 else again).extend((*start, *write, run))
    return PreparedPut(address, "writes", (once, again), put.weight)


# Reading

Portable: TypeAlias = tuple[tuple[Any, ...], list[tuple[Any, ...]], list[tuple[Any, ...]]]
"""The parts of a `StoredCheckpoint`, as plain values."""


def load(db: apsw.Connection, serde: SerializerProtocol, row: tuple[Any, ...]) -> CheckpointTuple:
    checkpoint = decode_checkpoint(serde, row)
    stored = StoredCheckpoint(row, _blobs(db, row, checkpoint), _writes(db, row))
    return assemble(serde, name_of(row[0]), stored, checkpoint)


def fetch_portable(db: apsw.Connection, serde: SerializerProtocol, row: tuple[Any, ...]) -> Portable:
    """Return what `load_portable` needs, in another process."""
    return row, _blobs(db, row, decode_checkpoint(serde, row)), _writes(db, row)


def load_portable(serde: SerializerProtocol, portable: Portable) -> CheckpointTuple:
    stored = StoredCheckpoint(*portable)
    return assemble(serde, name_of(stored.row[0]), stored)


def _blobs(db: apsw.Connection, row: tuple[Any, ...], checkpoint: Checkpoint) -> list[tuple[Any, ...]]:
    thread, ns, *_ = row
    inline = checkpoint["channel_values"]
    blob_keys = [
        part
        for channel, version in checkpoint["channel_versions"].items()
        if channel not in inline
        for part in (channel, str(version))
    ]
    found: list[tuple[Any, ...]] = []
    for at in range(0, len(blob_keys), 100):
        part = blob_keys[at : at + 100]
        found += fetch(db, _blobs_sql(len(part) // 2), (thread, ns, *part))
    return found


@temporary_cache(maxsize=64)
def _blobs_sql(channels: int) -> str:
    wanted = ", ".join(["(?, ?)"] * channels)
    return f"""SELECT channel, type, data FROM checkpoint_blobs
                WHERE thread = ? AND ns = ? AND (channel, version) IN (VALUES {wanted})"""


def _writes(db: apsw.Connection, row: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    # The order of `writes_sort_key`, in which a live run applies them.
    sql = """SELECT task, channel, type, data FROM checkpoint_writes
              WHERE thread = ? AND ns = ? AND checkpoint = ? ORDER BY path, task, idx"""
    return fetch(db, sql, row[:3])
