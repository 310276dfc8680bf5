"""`langgraph.json`: which graphs a project has, where its code is, and what environment it wants.

Reading it changes nothing; `prepare_environment` does, once, when a process is about to import the project's
code. Keys that Threadwire does not know are left alone: the same file also serves other tools.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from threadwire.errors import ConfigError
from threadwire.graphs.ui import UiConfig


@dataclass(frozen=True)
class GraphSource:
    """Where a graph's code is: `location` is `./file.py` or `package.module`, `attribute` a name in it."""

    location: str
    attribute: str
    description: str | None = None
    stream_models: bool = True

    def __str__(self) -> str:
        return f"{self.location}:{self.attribute}"

    @property
    def is_file(self) -> bool:
        return "/" in self.location or "\\" in self.location or Path(self.location).suffix in _FILE_SUFFIXES


@dataclass(frozen=True)
class ProjectConfig:
    path: Path
    graphs: dict[str, GraphSource]
    dependencies: list[Path] = field(default_factory=list)
    """Folders to import from, absolute. Names of packages to install are for image builds and not kept."""
    env: dict[str, str] = field(default_factory=dict)
    wants_auth: bool = False
    """Whether the project asks for authentication, which is not offered yet."""
    ui: UiConfig = field(default_factory=lambda: UiConfig({}))

    @property
    def root(self) -> Path:
        return self.path.parent


# A package named "agents" is told from a file by its suffix; the others are here to be refused by name later.
_FILE_SUFFIXES = frozenset({".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"})


def load_config(path: Path) -> ProjectConfig:
    """Read and check the file. Raises `ConfigError` with one line that says what to change."""
    path = path.absolute()
    content = _read_json(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must be a JSON object, not {_kind(content)}.")
    try:
        return ProjectConfig(
            path=path,
            graphs=_graphs(content.get("graphs")),
            dependencies=_dependencies(content.get("dependencies"), path.parent),
            env=_env(content.get("env"), path.parent),
            wants_auth=bool(content.get("auth")),
            ui=_ui(content, path.parent),
        )
    except ConfigError as mistake:
        raise ConfigError(f"{path}: {mistake.message}") from mistake


def prepare_environment(config: ProjectConfig) -> None:
    """Let the project's code be imported and see its variables. Doing it twice is doing it once.

    A variable of the config replaces one that is already set: the file says what the project runs with.
    Folders go to the end of the path, so that a project's `utils.py` cannot break an installed package.
    """
    for folder in [config.root, *config.dependencies]:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    os.environ.update(config.env)


def _read_json(path: Path) -> object:
    if path.is_dir():
        raise ConfigError(f"{path} is a folder. Name the configuration file in it, e.g. langgraph.json.")
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist. Pass the path of your langgraph.json.") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}.") from error


def _graphs(value: object) -> dict[str, GraphSource]:
    if value is None:
        raise ConfigError('"graphs" is missing. Add e.g. "graphs": {"agent": "./agent.py:graph"}.')
    if not isinstance(value, dict):
        raise ConfigError(f'"graphs" must be an object of names and sources, not {_kind(value)}.')
    if not value:
        raise ConfigError('"graphs" is empty. Add e.g. "agent": "./agent.py:graph".')
    return {graph_id: _graph(graph_id, source) for graph_id, source in value.items()}


def _graph(graph_id: str, value: object) -> GraphSource:
    where = f'"graphs"."{graph_id}"'
    if not graph_id.strip():
        raise ConfigError('"graphs" has a graph without a name.')
    if isinstance(value, str):
        value = {"path": value}
    if not isinstance(value, dict):
        raise ConfigError(f'{where} must be "./file.py:name" or an object with "path", not {_kind(value)}.')
    if (path := value.get("path")) is None:
        raise ConfigError(f'{where} has no "path". Add e.g. "path": "./agent.py:graph".')
    location, attribute = _split(where, path)
    return GraphSource(location, attribute, _description(where, value), _stream_models(where, value))


def _split(where: str, path: object) -> tuple[str, str]:
    if not isinstance(path, str):
        raise ConfigError(f'{where}: the path must be a text like "./agent.py:graph", not {_kind(path)}.')
    location, _, attribute = path.rpartition(":")
    if not location.strip() or not attribute.strip().isidentifier():
        raise ConfigError(
            f'{where}: "{path}" does not say which object to serve. '
            f'Write it as "./file.py:name" or "package.module:name".'
        )
    return location.strip(), attribute.strip()


def _description(where: str, value: Mapping[str, Any]) -> str | None:
    description = value.get("description")
    if description is not None and not isinstance(description, str):
        raise ConfigError(f'{where}: "description" must be a text, not {_kind(description)}.')
    return description


def _stream_models(where: str, value: Mapping[str, Any]) -> bool:
    stream_models = value.get("stream_models", True)
    if not isinstance(stream_models, bool):
        raise ConfigError(f'{where}: "stream_models" must be true or false, not {_kind(stream_models)}.')
    return stream_models


def _dependencies(value: object, root: Path) -> list[Path]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ConfigError('"dependencies" must be a list of folders and package names.')
    return [folder for name in value if (folder := _dependency(name, root)) is not None]


def _dependency(name: str, root: Path) -> Path | None:
    folder = Path(os.path.normpath(root / name))
    if folder.is_dir():
        return folder
    if name.startswith((".", "/")):
        raise ConfigError(f'"dependencies": the folder "{name}" does not exist ({folder}).')
    return None


def _env(value: object, root: Path) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, str):
        return _env_file(value, root)
    if isinstance(value, dict):
        return {name: _variable(name, text) for name, text in value.items()}
    raise ConfigError(f'"env" must be an object of variables or the path of a .env file, not {_kind(value)}.')


def _env_file(name: str, root: Path) -> dict[str, str]:
    path = root / name
    if not path.is_file():
        raise ConfigError(f'"env": the file "{name}" does not exist ({path}).')
    try:
        variables = dotenv_values(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'"env": the file "{name}" cannot be read: {error}.') from error
    return {name: text for name, text in variables.items() if text is not None}


def _variable(name: str, value: object) -> str:
    match value:
        case str():
            return value
        case bool() | int() | float():
            return json.dumps(value)
        case _:
            raise ConfigError(f'"env"."{name}" must be a text, not {_kind(value)}.')


def _ui(content: Mapping[str, Any], root: Path) -> UiConfig:
    sources, options = content.get("ui") or {}, content.get("ui_config") or {}
    if not isinstance(sources, dict) or not all(isinstance(path, str) and path for path in sources.values()):
        raise ConfigError('"ui" must be an object of names and sources. Write e.g. "ui": {"agent": "./ui.tsx"}.')
    shared = options.get("shared", []) if isinstance(options, dict) else None
    if not isinstance(shared, list) or not all(isinstance(name, str) for name in shared):
        raise ConfigError('"ui_config" must be an object like {"shared": ["module"]}.')
    return UiConfig({name: Path(os.path.normpath(root / path)) for name, path in sources.items()}, shared)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"
