"""Sync a file to disk with the strongest call that the platform offers."""

import errno
import fcntl
import os
from collections.abc import Callable

_F_FULLFSYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _full_sync(file: int) -> None:
    """For macOS, where `fsync` leaves the data in the drive's cache and `fdatasync` does not exist."""
    assert _F_FULLFSYNC is not None
    try:
        fcntl.fcntl(file, _F_FULLFSYNC)
    except OSError as error:
        if error.errno != errno.ENOTSUP:  # not supported by some file systems; any other error is a failed sync
            raise
        os.fsync(file)


def _choose_sync() -> Callable[[int], None]:
    if hasattr(os, "fdatasync"):
        return os.fdatasync
    return os.fsync if _F_FULLFSYNC is None else _full_sync


sync = _choose_sync()
