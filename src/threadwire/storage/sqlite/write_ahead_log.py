"""The write-ahead log: a file that is made long enough, synced, and emptied into the database in time."""

import os
from pathlib import Path

import apsw
import structlog

from threadwire.errors import StorageError
from threadwire.storage.sqlite.syncing import sync

_log = structlog.get_logger(__name__)

_PAGES = 2000
"""How long it gets before it is emptied."""
_MORE_PAGES = 250
"""How much longer before that is tried again, if it failed: each trial begins anew."""
_BYTES = _PAGES * 4120 + 32


def empty_at_start(db: apsw.Connection) -> None:
    """Have what a dead process left in the log on the disk before anybody is told of it.

    It may have died before it was synced; or because it could not be, and then the system may still show what the disk
    has not. To sync the log again would not change that, but to copy it into the database and sync that does.
    """
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def reserve(db: apsw.Connection, path: Path) -> None:
    """Make the log as long as it will be before it is reset.

    A commit into a file that grows has to sync the file's length too, which takes twice as long. SQLite reads a log up
    to its last valid frame, and zeros are none.
    """
    db.execute(f"PRAGMA user_version = {db.pragma('user_version')}")  # a write, so that the log exists
    with open(f"{path}-wal", "r+b") as log:
        missing = _BYTES - log.seek(0, os.SEEK_END)
        if missing > 0:
            log.write(bytes(missing))
            log.flush()
            os.fsync(log.fileno())


class WriteAheadLog:
    """For the writer, whose connection it is given."""

    def __init__(self, db: apsw.Connection, path: Path) -> None:
        self._db = db
        self._file = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)
        self._pages = 0
        self._empty_at = _PAGES
        db.set_wal_hook(self._note_length)

    def sync(self) -> None:
        try:
            sync(self._file)
        except OSError as error:
            raise StorageError(f"The write-ahead log could not be synced: {error}") from error

    @property
    def is_long(self) -> bool:
        return self._pages >= self._empty_at

    def empty(self) -> None:
        """Move what it holds into the database, so that it can begin anew.

        If that fails (a full disk, a bad one) nothing is lost: SQLite goes on reading it in the log, and takes none of
        it for moved that is not synced there. The log grows meanwhile, and when it has, it is tried again.
        """
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            if self._empty_at == _PAGES:
                _log.error("The write-ahead log cannot be emptied, so it grows", error=repr(error))
            self._empty_at = self._pages + _MORE_PAGES
        else:
            if self._empty_at != _PAGES:
                _log.warning("The write-ahead log could be emptied again")
            self._empty_at = _PAGES

    def leave(self) -> None:
        """What it holds must not get into the database, also not when that is closed: the system may have dropped some
        of it, and would read something else back."""
        self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def close(self) -> None:
        """Leave one file behind, if that can and may be. The writer is done by now."""
        os.close(self._file)
        try:
            if not self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1):
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            _log.error("The write-ahead log could not be emptied; it is needed beside the database", error=repr(error))

    def _note_length(self, db: apsw.Connection, name: str, pages: int) -> int:
        self._pages = pages
        return 0
