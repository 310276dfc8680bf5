"""The write-ahead log (WAL): preallocate it, sync it, and checkpoint it into the database.

In this module, a checkpoint is SQLite's: it copies the WAL into the database file.
"""

import errno
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path

import apsw
import structlog

from threadwire.errors import StorageError
from threadwire.storage.sqlite.syncing import sync

_log = structlog.get_logger(__name__)

_PAGES = 2000
"""Length at which the log is checkpointed."""
_RETRY_PAGES = 250
"""Growth after which a failed checkpoint is retried. Every retry copies the whole log again."""
_BYTES = _PAGES * 4120 + 32


def checkpoint_at_start(db: apsw.Connection) -> None:
    """Make durable what a crashed process left in the log, before anything of it is read.

    The process may have crashed before it synced the log, or because the sync failed. In the second case the operating
    system may still return data that is not on disk. Syncing the log again would not help, but copying it into the
    database and syncing that does.
    """
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def preallocate(db: apsw.Connection, path: Path) -> None:
    """Extend the log to the length that it reaches before it is reset.

    Syncing a file that has grown must also sync its length, which takes twice as long. SQLite reads a log up to its
    last valid frame, and zeros are not a valid frame. On a full disk the log stays shorter.
    """
    db.execute(f"PRAGMA user_version = {db.pragma('user_version')}")  # a write, so that the log exists
    _extend(path)


def _extend(path: Path) -> None:
    with open(f"{path}-wal", "r+b", buffering=0) as log:
        length = log.seek(0, os.SEEK_END)
        if length < _BYTES:
            if not _append_zeros(log, _BYTES - length):
                log.truncate(length)
            os.fsync(log.fileno())


def _append_zeros(log: FileIO, missing: int) -> bool:
    """Returns False if there is no room for all of them."""
    try:
        return log.write(bytes(missing)) == missing
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return False
        raise


class WriteAheadLog:
    """The log of the writer's connection."""

    def __init__(self, db: apsw.Connection, path: Path) -> None:
        self._db = db
        self._path = path
        self._file = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)
        self._pages = 0
        self._checkpoint_at = _PAGES
        self.truncated = False
        """Whether it is no longer preallocated."""
        db.set_wal_hook(self._note_length)

    def sync(self) -> None:
        try:
            sync(self._file)
        except OSError as error:
            raise StorageError(f"The write-ahead log could not be synced: {error}") from error

    @property
    def needs_checkpoint(self) -> bool:
        return self._pages >= self._checkpoint_at

    def checkpoint(self) -> None:
        """Copy the log into the database, so that it can be reused from its start.

        If that fails (a full or broken disk), nothing is lost: SQLite continues to read from the log, and counts a
        page as copied only once it is synced in the database. Meanwhile the log grows, and the checkpoint is retried
        later.
        """
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            if self._checkpoint_at == _PAGES:
                _log.error("wal_checkpoint_failed", error=repr(error), effect="The write-ahead log grows.")
            self._checkpoint_at = self._pages + _RETRY_PAGES
        else:
            if self._checkpoint_at != _PAGES:
                _log.warning("wal_checkpoint_recovered")
            self._checkpoint_at = _PAGES

    def truncate(self) -> None:
        """Checkpoint the log and return its room to the disk, if possible. A write for which there was no room may have
        left it very long."""
        with suppress(apsw.Error):
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self.truncated = True

    def extend(self) -> None:
        """Preallocate the log again."""
        self.truncated = False
        _extend(self._path)

    def disable_checkpoints(self) -> None:
        """Never copy the log into the database, not even on close: the operating system may have dropped some of its
        pages and return other content for them."""
        self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def close(self) -> None:
        """Checkpoint and truncate the log, if possible and allowed, so that a single file is left. Called after the
        writer has ended."""
        os.close(self._file)
        try:
            if not self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1):
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            hint = "Keep the write-ahead log next to the database."
            _log.error("wal_checkpoint_failed", error=repr(error), hint=hint)

    def _note_length(self, db: apsw.Connection, name: str, pages: int) -> int:
        self._pages = pages
        return 0
