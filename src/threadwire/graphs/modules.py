"""The project's own modules: importing them, and forgetting them so that changed code is imported anew.

Forgetting removes them from `sys.modules` and nothing else: whoever still runs the old code keeps it, as one keeps any
object that is referred to. What is installed is never forgotten, also when it lies in the project's folder.
"""

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from threadwire.graphs.source import Source

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders whose content is not the project's, wherever they lie."""


class CannotLoad(Exception):
    """Carries the one line that is shown for code that failed to load."""


class Modules:
    """Imports the project's files and packages, each once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[Path, ModuleType] = {}

    def load(self, source: Source) -> ModuleType:
        return self._load_file(source.location) if source.is_file else self._load_module(source.location)

    def _load_module(self, name: str) -> ModuleType:
        try:
            return importlib.import_module(name)
        except (Exception, SystemExit) as error:
            raise CannotLoad(self._explain(f"importing {name} failed", error)) from error

    def _load_file(self, location: str) -> ModuleType:
        path = Path(os.path.normpath(self._root / location))
        if path in self._files:
            return self._files[path]
        if not path.is_file():
            raise CannotLoad(f"file not found: {location} ({path})")
        if path.suffix != ".py":
            raise CannotLoad(f"{location} is not a Python file. Only graphs written in Python are served.")
        module = self._files[path] = self._execute(path, location)
        return module

    def _execute(self, path: Path, location: str) -> ModuleType:
        name = _module_name(path, self._root)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Before it runs: dataclasses, pydantic and get_type_hints look their own module up by name.
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # a module may call sys.exit(); the server stays
            del sys.modules[name]
            raise CannotLoad(self._explain(f"importing {location} failed", error)) from error
        return module

    def _explain(self, what: str, error: BaseException) -> str:
        place = _place(error, self._root)
        return f"{what}: {name_and_message(error)}" + (f" ({place})" if place else "")


def _module_name(path: Path, root: Path) -> str:
    """A name that is the same wherever the project lies: checkpoints name the classes in it by module.

    Only a second project in the same process that has a file of the same relative path gets another one.
    """
    relative = Path(os.path.relpath(path, root)).with_suffix("").as_posix()
    name = f"threadwire_graphs_{_identifier(relative)}_{_digest(relative)}"
    present = sys.modules.get(name)
    if present is None or getattr(present, "__file__", None) == str(path):
        return name
    return f"{name}_{_digest(str(path))}"


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _place(error: BaseException, root: Path) -> str | None:
    """Where in the user's own code it happened, as file:line."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shorten(error.filename, root)}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_own(frame.filename, [root])]
    return f"{_shorten(own[-1].filename, root)}:{own[-1].lineno}" if own else None


def _shorten(filename: str, root: Path) -> str:
    path = Path(filename)
    return str(path.relative_to(root)) if path.is_relative_to(root) else filename


def name_and_message(error: BaseException) -> str:
    # A SyntaxError's text repeats the place, which is given in our own words.
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    first_line = message.strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


# -- forgetting ------------------------------------------------------------------------------------------------------


@contextmanager
def forgotten(folders: Sequence[Path]) -> Iterator[None]:
    """Inside, the modules from these folders are imported anew. If the block fails, they are as they were."""
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
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in _NEVER and any(is_own(place, folders) for place in _places(module))
    }


def is_own(place: str, folders: Iterable[Path]) -> bool:
    path = Path(place)
    if INSTALLED & set(path.parts) or any(path.is_relative_to(library) for library in _STANDARD_LIBRARY):
        return False
    return any(path.is_relative_to(folder) for folder in folders)


def drop_bytecode(path: Path) -> None:
    """Python tells stale bytecode by the second and the size, which two quick edits may share."""
    Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)


# Threadwire may itself lie in the folder, and what is being run is not imported.
_NEVER = frozenset({"threadwire", "__main__"})
_STANDARD_LIBRARY = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))


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
