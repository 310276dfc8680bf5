"""A small file system of its own that can be filled and freed. Needs root, for the mount."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, leave: int = 0) -> None:
        """Fill the disk, except for `leave` bytes."""
        with self._filler.open("ab") as filler:
            while (size := self.room - leave) > 0:
                try:
                    os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:  # the server has taken some of the room in the meantime
                        raise

    def free(self) -> None:
        self._filler.unlink()

    @property
    def room(self) -> int:
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize


@contextmanager
def small_disk(path: Path, megabytes: int = 64) -> Iterator[SmallDisk]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "threadwire-test", str(path)], check=True)
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", str(path)], check=True)
