"""The project's own code: the files and modules that langgraph.json names, each imported once."""

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from threadwire.graphs.code_reference import SCRIPT_SUFFIXES, CodeReference
from threadwire.graphs.own_code import is_own_code
from threadwire.graphs.tracebacks import fits_one_line, render_traceback

MODULE_PREFIX = "threadwire_graphs_"
"""The names of modules that are loaded from files start with this."""


class LoadError(Exception):
    """Code failed to load. The message is one line; the cause, if there is one, is the error that the code raised."""

    @property
    def traceback(self) -> str | None:
        """The traceback of the cause, unless the message already contains everything in it."""
        cause = self.__cause__
        return None if cause is None or fits_one_line(cause) else render_traceback(cause)


def load_traceback(error: BaseException | None) -> str | None:
    """The traceback of the project's code, if that is why the error was raised."""
    while error is not None and not isinstance(error, LoadError):
        error = error.__cause__
    return None if error is None else error.traceback


class ProjectModules:
    """Imports the project's files and modules, each once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[Path, ModuleType] = {}
        self.notes: list[str] = []
        """What the operator should know about the modules that were imported."""

    def load(self, source: CodeReference) -> ModuleType:
        return self._load_file(source.location) if source.is_file else self._load_module(source.location)

    def _load_module(self, name: str) -> ModuleType:
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as error:
            raise LoadError(self._explain(f"importing {name} failed", error)) from error
        self._note_installed_copy(name, module)
        return module

    def _note_installed_copy(self, name: str, module: ModuleType) -> None:
        """Note that a module of the project was imported from an installed copy, so that edits have no effect."""
        file = getattr(module, "__file__", None) or ""
        relative = Path(*name.split("."))
        sources = (
            folder / path
            for folder in (self._root, self._root / "src")
            for path in (relative.with_suffix(".py"), relative / "__init__.py")
        )
        if not is_own_code(file) and (source := next(filter(Path.is_file, sources), None)) is not None:
            self.notes.append(
                f"{name} was imported from {file}, an installed copy of {_shorten(str(source), self._root)}:"
                " edits have no effect. Run pip install -e ."
            )

    def _load_file(self, location: str) -> ModuleType:
        path = Path(os.path.normpath(self._root / location))
        if path in self._files:
            return self._files[path]
        if not os.path.isfile(path):
            raise LoadError(f"file not found: {location} ({path})")
        if path.suffix != ".py":
            raise LoadError(f"{location} is not a Python file. {_other_language(path)}")
        module = self._files[path] = self._execute(path, location)
        return module

    def _execute(self, path: Path, location: str) -> ModuleType:
        name = _module_name(path, self._root)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Registered before it runs, because dataclasses, pydantic and get_type_hints look up the module by name.
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # a module that calls sys.exit() must not stop the server
            del sys.modules[name]
            raise LoadError(self._explain(f"importing {location} failed", error)) from error
        return module

    def _explain(self, summary: str, error: BaseException) -> str:
        line = _own_line(error, self._root)
        explained = f"{summary}: {name_and_message(error)}" + (f" ({line})" if line else "")
        if isinstance(error, ModuleNotFoundError) and self._is_installable():
            explained += ". Is the project installed? Run pip install -e ."
        return explained

    def _is_installable(self) -> bool:
        return any((self._root / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg"))


def _other_language(path: Path) -> str:
    if path.suffix in SCRIPT_SUFFIXES:
        return "Only Python graphs are supported. Serve this one with npx @langchain/langgraph-cli dev."
    return "Only Python graphs are supported."


def _module_name(path: Path, root: Path) -> str:
    """Return a module name that does not depend on the project's location: checkpoints refer to classes by module.

    The exception is a second project in the same process that has a file with the same relative path.
    """
    relative = Path(os.path.relpath(path, root)).with_suffix("").as_posix()
    name = f"{MODULE_PREFIX}{_identifier(relative)}_{_digest(relative)}"
    existing = sys.modules.get(name)
    if existing is None or getattr(existing, "__file__", None) == str(path):
        return name
    return f"{name}_{_digest(str(path))}"


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _own_line(error: BaseException, root: Path) -> str | None:
    """The innermost line of the project's own code in the traceback, as file:line."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shorten(error.filename, root)}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_own_code(frame.filename)]
    return f"{_shorten(own[-1].filename, root)}:{own[-1].lineno}" if own else None


def _shorten(filename: str, root: Path) -> str:
    path = Path(filename)
    return str(path.relative_to(root)) if path.is_relative_to(root) else filename


def name_and_message(error: BaseException) -> str:
    # The text of a SyntaxError repeats the location, which `_explain` adds in its own format.
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    first_line = message.strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
