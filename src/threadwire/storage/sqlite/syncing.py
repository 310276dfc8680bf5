"""Having the disk keep what was written to a file, with what the system offers for it."""

import errno
import fcntl
import os
from collections.abc import Callable

_FULL: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _sync_fully(file: int) -> None:
    """On macOS, where `fsync` leaves it in the memory of the disk itself, and `fdatasync` is not to be had."""
    assert _FULL is not None
    try:
        fcntl.fcntl(file, _FULL)
    except OSError as error:
        if error.errno != errno.ENOTSUP:  # as it is on some file systems; anything else is a sync that failed
            raise
        os.fsync(file)


def _chosen() -> Callable[[int], None]:
    if hasattr(os, "fdatasync"):
        return os.fdatasync
    return os.fsync if _FULL is None else _sync_fully


sync = _chosen()
