"""Whether a database that was full has room again."""

import os

from threadwire.storage.postgres.connections import Connection

_PROBE = 256 * 1024
"""Bytes. Too many for the free space in pages that exist, and they cannot be compressed."""

_INSERT = "INSERT INTO fold_snapshots (thread, name, seq, packed, data) VALUES ($1, 'room', 0, 0, $2)"


async def require_room(connection: Connection) -> None:
    """Write something and roll it back. Raises `DiskFullError` if there is no room for it. The pages that it took up
    are used again after the next vacuum."""
    await connection.execute("BEGIN")
    try:
        await connection.execute(_INSERT, os.urandom(16), os.urandom(_PROBE))
    finally:
        await connection.execute("ROLLBACK")
