"""Unload the project's own modules, so that the next import loads changed code.

Unloading only removes them from `sys.modules`: running code keeps the old modules alive as long as it refers to them.
Installed packages are never unloaded, even if they are inside the project's folder.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from threadwire.graphs.own_code import INSTALLED_FOLDERS, STANDARD_LIBRARY


@contextmanager
def unloaded_modules(folders: Sequence[Path]) -> Iterator[None]:
    """Unload the modules in these folders (or files). If the block raises, restore them."""
    before = own_modules(folders)
    _unload(before)
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        _unload(own_modules(folders))
        sys.modules.update(before)
        raise


def own_modules(folders: Sequence[Path]) -> dict[str, ModuleType]:
    """Imported modules that come from these folders, except installed packages."""
    prefixes = tuple(map(str, folders))
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in _NEVER_UNLOADED and any(_is_own(path, prefixes) for path in _paths(module))
    }


def _is_own(location: str, folders: tuple[str, ...]) -> bool:
    # Compare strings before creating a `Path`: there are thousands of modules to check.
    if not location.startswith(folders) or location.startswith(STANDARD_LIBRARY):
        return False
    path = Path(location)
    return not INSTALLED_FOLDERS & set(path.parts) and any(path.is_relative_to(folder) for folder in folders)


def drop_bytecode(path: Path) -> None:
    """Delete the cached bytecode of a source file.

    Python detects stale bytecode by the source's size and its mtime in seconds, which two quick edits may share.
    """
    Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)


# Threadwire itself may be inside the folder, and `__main__` cannot be imported again.
_NEVER_UNLOADED = frozenset({"threadwire", "__main__"})


def _unload(modules: Iterable[str]) -> None:
    for name in list(modules):
        sys.modules.pop(name, None)


def _paths(module: ModuleType) -> list[str]:
    """The module's file, or the folders of a namespace package."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return [file]
    try:
        return [str(folder) for folder in getattr(module, "__path__", ())]
    except Exception:  # `sys.modules` may hold arbitrary objects
        return []
