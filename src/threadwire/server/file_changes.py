"""Detect changes to a project's files by polling.

File system notifications are not used: they would have to watch whole folders, including virtual environments,
`node_modules` and databases, and they do not work on every file system that containers use.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from threadwire.graphs.config import ProjectConfig
from threadwire.graphs.own_code import INSTALLED_FOLDERS

POLL_SECONDS = 0.5
STABLE_SECONDS = 0.1
"""Seconds without a further change after which a save is complete: editors write in several steps."""
MAX_POLL_SHARE = 0.05
"""The maximum share of time to spend on polling. A large project is polled less often."""

FileSnapshot = dict[Path, tuple[int, int, int]]

_NOT_CODE = INSTALLED_FOLDERS | {"node_modules", "__pycache__", "__pypackages__"}


def snapshot_files(*configs: ProjectConfig) -> FileSnapshot:
    """Return the current state of the projects' files: their code, configuration and environment files."""
    seen: FileSnapshot = {}
    for file in {file for config in configs for file in _files(config)}:
        try:
            stat = os.stat(file)
        except OSError:  # deleted, or never existed
            continue
        seen[file] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return seen


def changed_files(before: FileSnapshot, now: FileSnapshot) -> list[Path]:
    """Return the files that were changed, added or removed."""
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def snapshot_when_stable(seen: FileSnapshot, *configs: ProjectConfig) -> FileSnapshot:
    """Wait until the files stop changing and return their state. Blocks."""
    while True:
        time.sleep(STABLE_SECONDS)
        if (now := snapshot_files(*configs)) == seen:
            return now
        seen = now


def _files(config: ProjectConfig) -> Iterator[Path]:
    yield config.path
    if config.env_file is not None:
        yield config.env_file
    for path in config.code_paths:
        if path.is_dir():
            yield from _python_files(path)
        else:
            yield path


def _python_files(folder: Path) -> Iterator[Path]:
    for path, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _NOT_CODE]
        yield from (Path(path, name) for name in files if name.endswith(".py"))
