"""The `chatkit` section of a graph in langgraph.json: how the graph looks in ChatKit, and what its pages offer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadwire.errors import ConfigError
from threadwire.graphs.code_reference import CodeReference, split_source
from threadwire.graphs.project_modules import LoadError, ProjectModules

DEFAULT_ACCEPT: dict[str, list[str]] = {
    "image/*": [".png", ".jpg", ".jpeg", ".gif", ".webp"],
    "application/pdf": [".pdf"],
    "text/*": [".txt", ".md", ".csv"],
}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolSection(_Section):
    """How calls to a tool look."""

    title: str | None = None
    icon: str | None = None
    progress: str | None = None
    task: Literal["custom", "web_search"] = "custom"
    show_errors: bool = False
    hidden: bool = False
    widget: str | None = None
    """A `.widget` file that renders the result."""


class AttachmentSection(_Section):
    enabled: bool = True
    strategy: Literal["direct", "two_phase"] = "two_phase"
    max_bytes: int = Field(5 * 1024 * 1024, ge=1)
    max_count: int = Field(10, ge=1, le=50)
    accept: dict[str, list[str]] = Field(default_factory=lambda: dict(DEFAULT_ACCEPT))
    """The accepted types, such as `image/*`, and the file name endings that pages offer for them."""

    def accepts(self, mime_type: str) -> bool:
        kind = mime_type.partition("/")[0]
        return any(each in ("*/*", mime_type, f"{kind}/*") for each in self.accept)


class PromptSection(_Section):
    label: str
    prompt: str
    icon: str | None = None


class ModelSection(_Section):
    id: str
    label: str
    description: str | None = None
    default: bool = False


class ComposerToolSection(_Section):
    id: str
    label: str
    icon: str = "bolt"
    short_label: str | None = None
    placeholder: str | None = None
    pinned: bool = False


class ChatKitConfig(_Section):
    formats: str | None = None
    """A `threadwire.chatkit.Formats`, such as `./formats.py:formats`."""
    tools: dict[str, ToolSection] = Field(default_factory=dict)
    widgets: dict[str, str] = Field(default_factory=dict)
    """`.widget` files by the names of the UI messages that they render."""
    transcribe: str | None = None
    """A function that turns audio into text."""
    on_disconnect: Literal["continue", "cancel"] = "continue"
    while_waiting: Literal["answer", "decline", "lock"] = "answer"
    subgraphs: bool = False
    hidden_nodes: list[str] = Field(default_factory=list)
    end_of_turn: bool = True
    custom_effects: bool = False
    skip_value: Any = None
    title: Literal["first_message", "none"] = "first_message"
    attachments: AttachmentSection = Field(default_factory=AttachmentSection)
    domain_key: str = "threadwire-local"
    greeting: str | None = None
    prompts: list[str | PromptSection] = Field(default_factory=list)
    placeholder: str | None = None
    models: list[ModelSection] = Field(default_factory=list)
    composer_tools: list[ComposerToolSection] = Field(default_factory=list)
    theme: dict[str, Any] | str | None = None
    disclaimer: str | None = None


@dataclass(frozen=True)
class ChatKitSection:
    """A section with the code and the files that it names."""

    config: ChatKitConfig = field(default_factory=ChatKitConfig)
    formats: Any = None
    transcribe: Any = None
    templates: Mapping[str, str] = field(default_factory=dict)
    """The contents of the `.widget` files, by their paths in the section."""


def read_chatkit(value: object) -> ChatKitConfig:
    """Raises `ConfigError` with a one-line message that says what to change."""
    try:
        return ChatKitConfig.model_validate({} if value is None else value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(f'"{part}"' for part in ("chatkit", *first["loc"]))
        raise ConfigError(f"{where}: {first['msg']}.") from None


def load_chatkit(config: ChatKitConfig, root: Path, modules: ProjectModules) -> ChatKitSection:
    """Import the code and read the files that the section names. Raises `ConfigError`."""
    paths = [*config.widgets.values(), *(tool.widget for tool in config.tools.values() if tool.widget is not None)]
    return ChatKitSection(
        config,
        _load("formats", config.formats, modules),
        _load("transcribe", config.transcribe, modules),
        {path: _read(root, path) for path in dict.fromkeys(paths)},
    )


def _load(key: str, path: str | None, modules: ProjectModules) -> Any:
    if path is None:
        return None
    source = CodeReference(*split_source(f'"chatkit"."{key}"', path))
    try:
        loaded = getattr(modules.load(source), source.attribute, None)
    except LoadError as failure:
        raise ConfigError(f'"chatkit"."{key}": {failure}') from failure
    if loaded is None:
        raise ConfigError(f'"chatkit"."{key}": {source} is not defined.')
    return loaded


def _read(root: Path, path: str) -> str:
    try:
        return (root / path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'"chatkit": the file "{path}" cannot be read: {error}.') from None
