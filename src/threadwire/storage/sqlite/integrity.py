"""Detect a damaged database, and report it to clients and to the operator."""

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import orjson
import structlog
import zstandard

from threadwire.errors import StorageDamaged, StorageError

_log = structlog.get_logger(__name__)

_CHECK_SECONDS = 0.5
"""Time limit of the check at startup; enough for a few hundred megabytes."""

DAMAGE_ERRORS = (
    apsw.CorruptError,
    apsw.NotADBError,
    # A column no longer contains the valid text, JSON or compressed data that was written.
    UnicodeDecodeError,
    orjson.JSONDecodeError,
    zstandard.ZstdError,
    zlib.error,
)
"""Errors that mean that the content of the file has changed since it was written."""

READ_DAMAGE_ERRORS = (*DAMAGE_ERRORS, apsw.IOError)
"""The same for reads, where an I/O error also means damage. (On a write, the disk may just be full.)"""


def require_database(path: Path) -> None:
    """Raise `StorageDamaged` for a write-ahead log without its database: SQLite would create a new database and delete
    the log."""
    log = path.with_name(f"{path.name}-wal")
    missing = not path.exists()
    if (missing or path.stat().st_size == 0) and log.exists() and log.stat().st_size > 0:
        raise StorageDamaged(
            f"The database {path} is {'missing' if missing else 'empty'}, but {log.name} next to it contains the"
            f" latest changes. Put the database file back, or restore a backup and move {log.name} away. To start with"
            f" an empty database, move {log.name} away."
        )


def quick_check(db: apsw.Connection) -> None:
    """Raise `apsw.CorruptError` if the file is damaged, and leave the file and its log unchanged.

    The check has a time limit. In a large file, damage in the unchecked rest is noticed when it is read.
    """
    deadline = time.monotonic() + _CHECK_SECONDS
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.set_progress_handler(lambda: time.monotonic() > deadline, 1_000)
    try:
        found = db.execute("PRAGMA quick_check(1)").get
    except apsw.InterruptError:
        found = "ok"
    finally:
        db.set_progress_handler(None)
    if found != "ok":
        raise apsw.CorruptError(str(found).rpartition("\n")[2])
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


@contextmanager
def translate_open_errors(path: Path) -> Iterator[None]:
    """Translate errors on opening the file into a `StorageError` with a one-line message."""
    try:
        yield
    except DAMAGE_ERRORS as error:
        raise StorageDamaged(
            f"The database {path} is damaged or not a SQLite database: {error}. Restore a backup, or save the readable"
            f" data: sqlite3 {path} .recover | sqlite3 saved.db"
        ) from error
    except (apsw.Error, OSError) as error:
        raise StorageError(f"The database {path} cannot be opened: {error}") from error


def write_error(error: Exception, file: str) -> StorageError:
    """Log a failed write, and return the error for its caller."""
    if isinstance(error, DAMAGE_ERRORS):
        return damage_error(error, file)
    _log.error("database_write_failed", error=repr(error))
    return StorageError(f"The database write failed: {error}")


def damage_error(error: Exception, file: str) -> StorageDamaged:
    """Log the damage with instructions for the operator, and return the error for the caller."""
    _log.error(
        "database_damaged",
        file=file,
        error=repr(error),
        check=f"sqlite3 {file} 'PRAGMA integrity_check'",
        hint="Stop the server, then restore a backup or save the readable data with .recover.",
    )
    return StorageDamaged(f"The database or its disk is damaged: {error}. The server log names the file.")
