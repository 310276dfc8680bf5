"""Files that are damaged: how that is noticed, and what whoever runs the server is told."""

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

_LOOK_SECONDS = 0.5
"""How long a file is looked through at the start; a few hundred megabytes."""

SIGNS = (
    apsw.CorruptError,
    apsw.NotADBError,
    # What a row holds was text, or JSON, or compressed, when it was written.
    UnicodeDecodeError,
    orjson.JSONDecodeError,
    zstandard.ZstdError,
    zlib.error,
)
"""Errors that a file raises which is not as it was written."""

UNREADABLE = (*SIGNS, apsw.IOError)
"""And what a disk adds to them that cannot be read. (One that cannot be written may just be full.)"""


def require_database(path: Path) -> None:
    """Refuse a write-ahead log without its database: SQLite would begin a new one, and throw the log away."""
    log = path.with_name(f"{path.name}-wal")
    missing = not path.exists()
    if (missing or path.stat().st_size == 0) and log.exists() and log.stat().st_size > 0:
        raise StorageDamaged(
            f"The database {path} is {'not there' if missing else 'empty'}, but {log.name} beside it holds what was"
            f" written to it last. Put the database back, or restore a backup and move {log.name} away. To begin with"
            f" nothing, move {log.name} away."
        )


def look_through(db: apsw.Connection) -> None:
    """Raise `apsw.CorruptError` if the file is damaged, as far as it can be looked through soon; and leave it as it is
    then, with its log. The rest of a larger file is seen when it is read."""
    until = time.monotonic() + _LOOK_SECONDS
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.set_progress_handler(lambda: time.monotonic() > until, 1_000)
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
def opening(path: Path) -> Iterator[None]:
    """Say in one line why the file cannot be opened."""
    try:
        yield
    except SIGNS as error:
        raise StorageDamaged(
            f"The database {path} cannot be used, for it is damaged, or no database: {error}. Restore a backup, or save"
            f" what can be read: sqlite3 {path} .recover | sqlite3 saved.db"
        ) from error
    except (apsw.Error, OSError) as error:
        raise StorageError(f"The database {path} cannot be opened: {error}") from error


def refusal(error: Exception, file: str) -> StorageError:
    """What is told to whoever wanted something written."""
    if isinstance(error, SIGNS):
        return damaged(error, file)
    _log.error("The database refused", error=repr(error))
    return StorageError(f"The database refused: {error}")


def damaged(error: Exception, file: str) -> StorageDamaged:
    """What is told to whoever asked; and in the log, to whoever can do something."""
    _log.error(
        "The database is damaged, or its disk",
        file=file,
        error=repr(error),
        to_check=f"sqlite3 {file} 'PRAGMA integrity_check'",
        to_do="stop the server, and restore a backup or save what can be read with .recover",
    )
    return StorageDamaged(f"The database is damaged, or its disk: {error}. The server's log says which file it is.")
