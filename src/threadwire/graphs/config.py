"""`langgraph.json`: a project's graphs, the location of its code, and its environment.

Loading the file has no side effects. `prepare_environment` applies it, once, before a process imports the project's
code. Unknown top-level keys are ignored, because other tools read the same file. Unknown keys inside a known section
are reported, because they are most likely misspelt.

An error that only removes something (a graph, a variable, a folder) is reported and the rest is served. An error in a
section that controls access or persistence is raised.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from threadwire.core.raw_modes import RAW_MODES, RawModes
from threadwire.core.webhooks import WebhookRules
from threadwire.errors import ConfigError
from threadwire.graphs.auth_config import AuthConfig, read_auth
from threadwire.graphs.chatkit_config import ChatKitConfig, read_chatkit
from threadwire.graphs.code_reference import CodeReference, kind_of, split_source
from threadwire.graphs.config_keys import unknown_keys
from threadwire.graphs.http_config import HttpConfig, read_http
from threadwire.graphs.persistence_config import CheckpointerConfig, StoreConfig, read_checkpointer, read_store
from threadwire.graphs.ui import UiConfig
from threadwire.graphs.webhook_config import read_webhooks


@dataclass(frozen=True)
class GraphSource(CodeReference):
    description: str | None = None
    stream_models: bool = True
    interrupt_outcome: bool = True
    raw_events: bool | RawModes = False
    """The RAW events for AG-UI clients that do not choose their own."""
    chatkit: ChatKitConfig = field(default_factory=ChatKitConfig)
    problem: str | None = None
    """Why the entry is invalid, if it is."""


@dataclass(frozen=True)
class ProjectConfig:
    path: Path
    graphs: dict[str, GraphSource]
    dependencies: list[Path] = field(default_factory=list)
    """Absolute folders to import from. Package names are only for image builds and are dropped."""
    env: dict[str, str] = field(default_factory=dict)
    env_file: Path | None = None
    store: StoreConfig = field(default_factory=StoreConfig)
    checkpointer: CheckpointerConfig = field(default_factory=CheckpointerConfig)
    webhooks: WebhookRules = field(default_factory=WebhookRules)
    auth: AuthConfig | None = None
    ui: UiConfig = field(default_factory=lambda: UiConfig({}))
    http: HttpConfig = field(default_factory=HttpConfig)
    problems: list[str] = field(default_factory=list)
    """Invalid parts of the file that are ignored. Invalid graph entries are reported per graph."""
    warnings: list[str] = field(default_factory=list)
    """Unknown and unsupported keys, which are ignored, and a missing .env file: it is often not under version
    control."""

    @property
    def root(self) -> Path:
        return self.path.parent

    @property
    def code_paths(self) -> list[Path]:
        """The folders of the project's own code, and the files of its graphs, application and auth, which may lie
        outside them."""
        named: list[CodeReference] = [
            *self.graphs.values(),
            *([self.http.app] if self.http.app else []),
            *([self.auth.source] if self.auth else []),
        ]
        files = [Path(os.path.normpath(self.root / source.location)) for source in named if source.is_file]
        return list(dict.fromkeys([self.root, *self.dependencies, *files]))


def load_config(path: Path) -> ProjectConfig:
    """Read and validate the file. Raises `ConfigError` with a one-line message that says what to change."""
    path = path.absolute()
    content = read_json_object(path)
    problems: list[str] = []
    warnings = unknown_keys(content)
    try:
        _require_no_encryption(content.get("encryption"))
        return ProjectConfig(
            path=path,
            graphs=_graphs(content.get("graphs"), problems),
            dependencies=_dependencies(content.get("dependencies"), path.parent, problems),
            env=_env(content.get("env"), path.parent, problems, warnings),
            env_file=path.parent / env if isinstance(env := content.get("env"), str) else None,
            store=read_store(content.get("store")),
            checkpointer=read_checkpointer(content.get("checkpointer")),
            webhooks=read_webhooks(content.get("webhooks")),
            auth=read_auth(content.get("auth")),
            ui=_ui(content, path.parent, problems),
            http=read_http(content.get("http")),
            problems=problems,
            warnings=warnings,
        )
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}") from error


def _require_no_encryption(value: object) -> None:
    """Never ignore this key: data that should be encrypted would be stored unencrypted."""
    if value:
        raise ConfigError('"encryption" is not supported. Remove it to store threads unencrypted.')


def prepare_environment(config: ProjectConfig) -> None:
    """Make the project's code importable and set its environment variables. Idempotent.

    Variables from the config override those already set. Folders are appended to `sys.path`, so that a project's
    `utils.py` cannot shadow an installed package.
    """
    for folder in [config.root, *config.dependencies]:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    os.environ.update(config.env)


def read_json_object(path: Path) -> dict[str, Any]:
    """Read the file without validating what is in the object. Raises `ConfigError`."""
    content = _read_json(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must be a JSON object, not {kind_of(content)}.")
    return content


def _read_json(path: Path) -> object:
    if path.is_dir():
        raise ConfigError(f"{path} is a folder. Name the configuration file in it, e.g. langgraph.json.")
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        json.dumps(content, ensure_ascii=False).encode()
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist. Pass the path of your langgraph.json.") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: invalid JSON at line {error.lineno}, column {error.colno}: {error.msg}.") from None
    except UnicodeEncodeError:
        raise ConfigError(f"{path}: a string contains a lone surrogate, which is not valid Unicode.") from None
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}.") from error
    return content


def _graphs(value: object, problems: list[str]) -> dict[str, GraphSource]:
    if value is None:
        raise ConfigError('"graphs" is missing. Add e.g. "graphs": {"agent": "./agent.py:graph"}.')
    if not isinstance(value, dict):
        raise ConfigError(f'"graphs" must be an object that maps names to sources, not {kind_of(value)}.')
    named = {graph_id: source for graph_id, source in value.items() if graph_id.strip()}
    if not named:
        raise ConfigError('"graphs" is empty. Add e.g. "agent": "./agent.py:graph".')
    if len(named) < len(value):
        problems.append('"graphs" has an entry without a name. It is not served.')
    return {graph_id: _graph(source) for graph_id, source in named.items()}


def _graph(value: object) -> GraphSource:
    try:
        return _read_graph(value)
    except ConfigError as error:
        return GraphSource("", "", problem=error.message)


def _read_graph(value: object) -> GraphSource:
    if isinstance(value, str):
        value = {"path": value}
    if not isinstance(value, dict):
        raise ConfigError(f'the entry must be "./file.py:name" or an object with "path", not {kind_of(value)}.')
    if (path := value.get("path")) is None:
        raise ConfigError('the entry has no "path". Add e.g. "path": "./agent.py:graph".')
    location, attribute = split_source('"path"', path)
    return GraphSource(
        location,
        attribute,
        _description(value),
        stream_models=_flag(value, "stream_models"),
        interrupt_outcome=_flag(value, "interrupt_outcome"),
        raw_events=_raw_events(value.get("raw_events", False)),
        chatkit=read_chatkit(value.get("chatkit")),
    )


def _raw_events(value: object) -> bool | RawModes:
    if isinstance(value, bool):
        return value
    if not isinstance(value, list) or not all(mode in RAW_MODES for mode in value):
        raise ConfigError(f'"raw_events" must be true, false, or a list of these: {", ".join(RAW_MODES)}.')
    return tuple(value)


def _description(value: Mapping[str, Any]) -> str | None:
    description = value.get("description")
    if description is not None and not isinstance(description, str):
        raise ConfigError(f'"description" must be a string, not {kind_of(description)}.')
    return description


def _flag(value: Mapping[str, Any], name: str) -> bool:
    """A boolean that defaults to true."""
    flag = value.get(name, True)
    if not isinstance(flag, bool):
        raise ConfigError(f'"{name}" must be true or false, not {kind_of(flag)}.')
    return flag


def _dependencies(value: object, root: Path, problems: list[str]) -> list[Path]:
    if value is None:
        return []
    if not isinstance(value, list):
        problems.append(f'"dependencies" must be a list of folders and package names, not {kind_of(value)}.')
        return []
    return [folder for name in value if (folder := _dependency(name, root, problems)) is not None]


def _dependency(name: object, root: Path, problems: list[str]) -> Path | None:
    if not isinstance(name, str):
        problems.append(f'"dependencies": each folder or package name must be a string, not {kind_of(name)}.')
        return None
    folder = Path(os.path.normpath(root / name))
    if os.path.isdir(folder):
        return folder
    if name.startswith((".", "/")):
        problems.append(f'"dependencies": the folder "{name}" does not exist ({folder}).')
    return None


def _env(value: object, root: Path, problems: list[str], warnings: list[str]) -> dict[str, str]:
    if isinstance(value, str):
        value = _env_file(value, root, problems, warnings)
    if value is None:
        return {}
    if not isinstance(value, dict):
        problems.append(f'"env" must be an object of variables or the path of a .env file, not {kind_of(value)}.')
        return {}
    return {name: text for name, raw in value.items() if (text := _variable(name, raw, problems)) is not None}


def _env_file(name: str, root: Path, problems: list[str], warnings: list[str]) -> dict[str, str]:
    path = root / name
    if not os.path.isfile(path):
        warnings.append(f'"env": the file "{name}" does not exist ({path}).')
        return {}
    try:
        variables = dotenv_values(path)
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f'"env": the file "{name}" cannot be read: {error}.')
        return {}
    return {name: text for name, text in variables.items() if text is not None}


def _variable(name: str, value: object, problems: list[str]) -> str | None:
    if not isinstance(value, (str, int, float)):
        problems.append(f'"env"."{name}" must be a string, not {kind_of(value)}. It is not set.')
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    if not name or "=" in name or "\0" in name + text:
        problems.append(f'"env"."{name}" is not a valid environment variable. It is not set.')
        return None
    return text


def _ui(content: Mapping[str, Any], root: Path, problems: list[str]) -> UiConfig:
    section, options = content.get("ui") or {}, content.get("ui_config") or {}
    entries = section.items() if isinstance(section, dict) else ()
    sources = {name: path for name, path in entries if isinstance(path, str) and path}
    if not isinstance(section, dict) or len(sources) < len(section):
        problems.append('"ui" must be an object that maps names to sources, e.g. "ui": {"agent": "./ui.tsx"}.')
    shared = options.get("shared", []) if isinstance(options, dict) else None
    if not isinstance(shared, list) or not all(isinstance(name, str) for name in shared):
        problems.append('"ui_config" must be an object like {"shared": ["module"]}.')
        shared = []
    return UiConfig({name: Path(os.path.normpath(root / path)) for name, path in sources.items()}, shared)
