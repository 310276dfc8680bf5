"""Noticing that a project's files have changed, by looking.

Not by asking the operating system to tell: that would mean watching whole folders with the virtual environments,
dependencies of pages and databases in them, and it does not work on all the file systems that containers use.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from threadwire.graphs.config import ProjectConfig
from threadwire.graphs.forgetting import INSTALLED

LOOK_EVERY = 0.5
SETTLES_IN = 0.1
"""Seconds without a further change after which a file counts as saved: editors write in several moves."""
SHARE = 0.05
"""The part of the time that may be spent looking. A large project is looked at less often."""

Seen = dict[Path, tuple[int, int, int]]

_NOT_CODE = INSTALLED | {"node_modules", "__pycache__", "__pypackages__"}


def look(*configs: ProjectConfig) -> Seen:
    """These projects' files as they are now: their code, and what says where it is."""
    seen: Seen = {}
    for file in {file for config in configs for file in _files(config)}:
        try:
            stat = os.stat(file)
        except OSError:  # gone, or never there
            continue
        seen[file] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return seen


def differing(before: Seen, now: Seen) -> list[Path]:
    """The files that were changed, added or removed."""
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def look_when_settled(seen: Seen, *configs: ProjectConfig) -> Seen:
    """The files once nothing changes any more. Blocks."""
    while True:
        time.sleep(SETTLES_IN)
        if (now := look(*configs)) == seen:
            return now
        seen = now


def _files(config: ProjectConfig) -> Iterator[Path]:
    yield config.path
    if config.env_file is not None:
        yield config.env_file
    for place in config.places:
        if place.is_dir():
            yield from _python_files(place)
        else:
            yield place


def _python_files(folder: Path) -> Iterator[Path]:
    for path, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _NOT_CODE]
        yield from (Path(path, name) for name in files if name.endswith(".py"))
