"""`langgraph.json`: which graphs a project has, where its code is, and what environment it wants.

Reading it changes nothing; `prepare_environment` does, once, when a process is about to import the project's
code. Keys that Threadwire does not know are left alone, because the same file also serves other tools; those inside
a section that it does know are told, because they are most likely misspelt.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from threadwire.core.webhooks import WebhookRules
from threadwire.errors import ConfigError
from threadwire.graphs.http_section import HttpSection, read_http
from threadwire.graphs.known_keys import unknown_keys
from threadwire.graphs.persistence import CheckpointerConfig, StoreConfig, read_checkpointer, read_store
from threadwire.graphs.source import CodeSource, kind_of, split_source
from threadwire.graphs.ui import UiConfig
from threadwire.graphs.webhooks import read_webhooks


@dataclass(frozen=True)
class GraphSource(CodeSource):
    description: str | None = None
    stream_models: bool = True
    interrupt_outcome: bool = True


@dataclass(frozen=True)
class ProjectConfig:
    path: Path
    graphs: dict[str, GraphSource]
    dependencies: list[Path] = field(default_factory=list)
    """Folders to import from, absolute. Names of packages to install are for image builds and not kept."""
    env: dict[str, str] = field(default_factory=dict)
    env_file: Path | None = None
    store: StoreConfig = field(default_factory=StoreConfig)
    checkpointer: CheckpointerConfig = field(default_factory=CheckpointerConfig)
    webhooks: WebhookRules = field(default_factory=WebhookRules)
    wants_auth: bool = False
    """Whether the project asks for authentication, which is not offered yet."""
    ui: UiConfig = field(default_factory=lambda: UiConfig({}))
    http: HttpSection = field(default_factory=HttpSection)
    warnings: list[str] = field(default_factory=list)
    """What is odd in the file, but no reason not to serve it."""

    @property
    def root(self) -> Path:
        return self.path.parent

    @property
    def places(self) -> list[Path]:
        """Where the project's own code is: its folders, and files that lie outside them."""
        named: list[CodeSource] = [*self.graphs.values(), *([self.http.app] if self.http.app else [])]
        files = [Path(os.path.normpath(self.root / source.location)) for source in named if source.is_file]
        return list(dict.fromkeys([self.root, *self.dependencies, *files]))


def load_config(path: Path) -> ProjectConfig:
    """Read and check the file. Raises `ConfigError` with one line that says what to change."""
    path = path.absolute()
    content = _read_json(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must be a JSON object, not {kind_of(content)}.")
    try:
        return ProjectConfig(
            path=path,
            graphs=_graphs(content.get("graphs")),
            dependencies=_dependencies(content.get("dependencies"), path.parent),
            env=_env(content.get("env"), path.parent),
            env_file=path.parent / env if isinstance(env := content.get("env"), str) else None,
            store=read_store(content.get("store")),
            checkpointer=read_checkpointer(content.get("checkpointer")),
            webhooks=read_webhooks(content.get("webhooks")),
            wants_auth=bool(content.get("auth")),
            ui=_ui(content, path.parent),
            http=read_http(content.get("http")),
            warnings=unknown_keys(content),
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
        raise ConfigError(f'"graphs" must be an object of names and sources, not {kind_of(value)}.')
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
        raise ConfigError(f'{where} must be "./file.py:name" or an object with "path", not {kind_of(value)}.')
    if (path := value.get("path")) is None:
        raise ConfigError(f'{where} has no "path". Add e.g. "path": "./agent.py:graph".')
    location, attribute = split_source(where, path)
    return GraphSource(
        location,
        attribute,
        _description(where, value),
        stream_models=_switch(where, value, "stream_models"),
        interrupt_outcome=_switch(where, value, "interrupt_outcome"),
    )


def _description(where: str, value: Mapping[str, Any]) -> str | None:
    description = value.get("description")
    if description is not None and not isinstance(description, str):
        raise ConfigError(f'{where}: "description" must be a text, not {kind_of(description)}.')
    return description


def _switch(where: str, value: Mapping[str, Any], name: str) -> bool:
    """Something that is on unless it is switched off."""
    switch = value.get(name, True)
    if not isinstance(switch, bool):
        raise ConfigError(f'{where}: "{name}" must be true or false, not {kind_of(switch)}.')
    return switch


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
    raise ConfigError(f'"env" must be an object of variables or the path of a .env file, not {kind_of(value)}.')


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
            raise ConfigError(f'"env"."{name}" must be a text, not {kind_of(value)}.')


def _ui(content: Mapping[str, Any], root: Path) -> UiConfig:
    sources, options = content.get("ui") or {}, content.get("ui_config") or {}
    if not isinstance(sources, dict) or not all(isinstance(path, str) and path for path in sources.values()):
        raise ConfigError('"ui" must be an object of names and sources. Write e.g. "ui": {"agent": "./ui.tsx"}.')
    shared = options.get("shared", []) if isinstance(options, dict) else None
    if not isinstance(shared, list) or not all(isinstance(name, str) for name in shared):
        raise ConfigError('"ui_config" must be an object like {"shared": ["module"]}.')
    return UiConfig({name: Path(os.path.normpath(root / path)) for name, path in sources.items()}, shared)
