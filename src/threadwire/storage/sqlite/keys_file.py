"""The file that holds API keys and tickets.

Only one process may open the main database, but commands create and revoke keys while a server runs. So this file uses
SQLite's own locks: any number of processes may open it. It is small and rarely written. A read takes microseconds and
never waits for a writer, so it runs on the caller's thread.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from threadwire.errors import StorageError
from threadwire.storage.sqlite.integrity import translate_open_errors

_BUSY_MS = 5_000
_VERSION = 1
_SCHEMA = """
CREATE TABLE keys (
  key         TEXT    PRIMARY KEY,
  digest      BLOB    NOT NULL,                      -- SHA-256 of the secret
  user        TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  permissions TEXT    NOT NULL,                      -- JSON
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER,
  revoked_at  INTEGER
) WITHOUT ROWID;
CREATE TABLE tickets (
  digest      BLOB    PRIMARY KEY,                   -- SHA-256 of the secret
  access      TEXT    NOT NULL,                      -- JSON
  expires_at  INTEGER NOT NULL
) WITHOUT ROWID;
"""


@contextmanager
def open_keys_file(path: Path) -> Iterator[apsw.Connection]:
    with translate_open_errors(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        db = apsw.Connection(str(path))
    with closing(db):
        with translate_open_errors(path):
            db.set_busy_timeout(_BUSY_MS)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")  # what must be durable on return uses `synced`
            _create_schema(db, path)
        yield db


def _create_schema(db: apsw.Connection, path: Path) -> None:
    db.execute("BEGIN IMMEDIATE")  # two processes may open a new file at the same time
    version = db.pragma("user_version")
    if version == 0:
        db.execute(_SCHEMA)
        db.execute(f"PRAGMA user_version = {_VERSION}")
    db.execute("COMMIT")
    if version > _VERSION:
        raise StorageError(f"The keys in {path} were written by a newer Threadwire. Upgrade Threadwire.")


@contextmanager
def synced(db: apsw.Connection) -> Iterator[None]:
    """Sync every write inside the `with`."""
    db.execute("PRAGMA synchronous = FULL")
    try:
        yield
    finally:
        db.execute("PRAGMA synchronous = NORMAL")


@contextmanager
def translate_key_errors() -> Iterator[None]:
    try:
        yield
    except apsw.ConstraintError:
        raise
    except apsw.Error as error:
        raise StorageError(f"The API key file cannot be used: {error}") from error
