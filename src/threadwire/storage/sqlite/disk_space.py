"""Handles a full disk, which is a temporary state.

On a full disk SQLite cannot even delete: a transaction needs room in the write-ahead log before it frees anything. So a
reserve file takes up room while there is enough. When a write fails for lack of room, the file is deleted, and its room
is used by the writes that are still allowed: those that delete data, and those that end or release runs. When there is
room again, the file is created again, and all writes are allowed.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw
import structlog

from threadwire.errors import StorageFull

_log = structlog.get_logger(__name__)

RESERVE_BYTES = 16 * 1024 * 1024
"""More than the write-ahead log holds before it is checkpointed, so that there is always room for a checkpoint."""

_LOW_BYTES = 4 * 1024 * 1024
"""A storage that is opened with less room than this in addition to its reserve is full from the start."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class DiskSpace:
    """Whether the disk is full. Changed by the writer thread and by the upkeep thread; can be read on any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reserve = directory / "reserve"
        self.full = self._room() < _LOW_BYTES if self._reserve.exists() else not self._recreate()
        if self.full:
            self._reserve.unlink(missing_ok=True)
            self._log_full()

    def error(self) -> StorageFull:
        """Return a new exception each time, because raising one adds to its traceback."""
        return StorageFull(
            f"The disk of the data directory is full. Free at least {2 * RESERVE_BYTES // 2**20} MB, then retry; the"
            " server continues by itself."
        )

    def is_cause(self, error: BaseException, system_errno: int) -> bool:
        """Whether a write failed because there was no room. SQLite reports an exceeded quota as an I/O error."""
        return isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and system_errno in _NO_ROOM)

    def note_failed_write(self, clean_up: Callable[[], None]) -> bool:
        """Note that a write failed because there was no room, and return whether the disk has just become full.
        `clean_up` frees the room that the write itself has taken. If there is room after that, the write was too
        large."""
        if self.full:
            return False
        self._reserve.unlink(missing_ok=True)
        clean_up()
        self.full = not self._recreate()
        if self.full:
            self._log_full()
        else:
            _log.error("write_rejected", reason="The disk has no room for this write.", bytes_free=self._room())
        return self.full

    def check(self) -> bool:
        """Return whether the disk was full and there is room again."""
        if not self.full or not self._recreate():
            return False
        self.full = False
        _log.warning("disk_space_recovered", effect="Writes are accepted again.")
        return True

    def _log_full(self) -> None:
        _log.error(
            "disk_space_exhausted", directory=str(self._directory), effect="Writes are rejected until there is room."
        )

    def _recreate(self) -> bool:
        """Create the reserve, if as much room is left afterwards: other programs need room too."""
        if self._room() < 2 * RESERVE_BYTES:
            return False
        try:
            _allocate(self._reserve, RESERVE_BYTES)
        except OSError:
            with suppress(OSError):
                self._reserve.unlink(missing_ok=True)
            return False
        return True

    def _room(self) -> int:
        disk = os.statvfs(self._directory)
        return disk.f_bavail * disk.f_frsize


def _allocate(path: Path, size: int) -> None:
    with path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.write(bytes(size))
