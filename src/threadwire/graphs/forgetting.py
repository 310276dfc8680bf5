"""Forgetting the project's own modules, so that changed code is imported anew.

Forgetting removes them from `sys.modules` and nothing else: whoever still runs the old code keeps it, as one keeps any
object that is referred to. What is installed is never forgotten, also when it lies in the project's folder.
"""

import importlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders whose content is not the project's, wherever they lie."""


@contextmanager
def forgotten(folders: Sequence[Path]) -> Iterator[None]:
    """From here on, the modules in these folders (or files) are imported anew. If the block fails, they are as they
    were."""
    before = own_modules(folders)
    _forget(before)
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        _forget(own_modules(folders))
        sys.modules.update(before)
        raise


def own_modules(folders: Sequence[Path]) -> dict[str, ModuleType]:
    """What has been imported from these folders and is not installed there."""
    own = tuple(map(str, folders))
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in _NEVER and any(_is_own(place, own) for place in _places(module))
    }


def _is_own(place: str, folders: tuple[str, ...]) -> bool:
    # Texts, not paths: there are thousands of modules to look at.
    if not place.startswith(folders) or place.startswith(_STANDARD_LIBRARY):
        return False
    path = Path(place)
    return not INSTALLED & set(path.parts) and any(path.is_relative_to(folder) for folder in folders)


def drop_bytecode(path: Path) -> None:
    """Python tells stale bytecode by the second and the size, which two quick edits may share."""
    Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)


# Threadwire may itself lie in the folder, and what is being run is not imported.
_NEVER = frozenset({"threadwire", "__main__"})
_STANDARD_LIBRARY = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))


def _forget(modules: Iterable[str]) -> None:
    for name in list(modules):
        sys.modules.pop(name, None)


def _places(module: ModuleType) -> list[str]:
    """Its file; for a package without one, its folders."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return [file]
    try:
        return [str(folder) for folder in getattr(module, "__path__", ())]
    except Exception:  # the module of a library may be any object, and answer anything
        return []
