"""Collects the rows that checkpoint puts write, so that one statement can write those of many runs."""

from typing import Any

from threadwire.storage.postgres.connections import Connection

Row = tuple[Any, ...]
_CHECKPOINT_COLUMNS, _BLOB_COLUMNS, _WRITE_COLUMNS = 8, 6, 10

_STORE = """
WITH stored_checkpoints AS (
  INSERT INTO checkpoints (thread, ns, checkpoint, parent, run, type, data, metadata)
  SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::bytea[],
                       $8::text[])
  ON CONFLICT (thread, ns, checkpoint) DO UPDATE
     SET parent = excluded.parent, run = excluded.run, type = excluded.type, data = excluded.data,
         metadata = excluded.metadata
), stored_blobs AS (
  INSERT INTO checkpoint_blobs (thread, ns, channel, version, type, data)
  SELECT * FROM unnest($9::bytea[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bytea[])
  ON CONFLICT (thread, ns, channel, version) DO UPDATE SET type = excluded.type, data = excluded.data
), stored_once AS (
  INSERT INTO checkpoint_writes (thread, ns, checkpoint, task, idx, path, channel, type, data, run)
  SELECT * FROM unnest($15::bytea[], $16::text[], $17::text[], $18::text[], $19::integer[], $20::text[], $21::text[],
                       $22::text[], $23::bytea[], $24::bytea[])
  ON CONFLICT DO NOTHING
)
INSERT INTO checkpoint_writes (thread, ns, checkpoint, task, idx, path, channel, type, data, run)
SELECT * FROM unnest($25::bytea[], $26::text[], $27::text[], $28::text[], $29::integer[], $30::text[], $31::text[],
                     $32::text[], $33::bytea[], $34::bytea[])
ON CONFLICT (thread, ns, checkpoint, task, idx) DO UPDATE
   SET path = excluded.path, channel = excluded.channel, type = excluded.type, data = excluded.data, run = excluded.run
"""


class CheckpointRows:
    """Rows by primary key, because one statement must not write a row twice."""

    __slots__ = ("_blobs", "_checkpoints", "_once", "_replaced")

    def __init__(self) -> None:
        self._checkpoints: dict[Row, Row] = {}
        self._blobs: dict[Row, Row] = {}
        self._once: dict[Row, Row] = {}
        self._replaced: dict[Row, Row] = {}

    def put_checkpoint(self, row: Row) -> None:
        self._checkpoints[row[:3]] = row

    def put_blob(self, row: Row) -> None:
        self._blobs[row[:4]] = row

    def put_write(self, row: Row) -> None:
        """A task that runs again does not overwrite its earlier writes, except errors and interrupts."""
        if row[4] >= 0:
            self._once.setdefault(row[:5], row)
        else:
            self._replaced[row[:5]] = row

    def add(self, later: "CheckpointRows") -> None:
        self._checkpoints.update(later._checkpoints)
        self._blobs.update(later._blobs)
        self._once = later._once | self._once
        self._replaced.update(later._replaced)

    async def store(self, db: Connection) -> None:
        if self._checkpoints or self._blobs or self._once or self._replaced:
            await db.execute(
                _STORE,
                *_columns(self._checkpoints, _CHECKPOINT_COLUMNS),
                *_columns(self._blobs, _BLOB_COLUMNS),
                *_columns(self._once, _WRITE_COLUMNS),
                *_columns(self._replaced, _WRITE_COLUMNS),
            )


def _columns(rows: dict[Row, Row], width: int) -> "list[tuple[Any, ...]]":
    return list(zip(*rows.values(), strict=True)) if rows else [()] * width
