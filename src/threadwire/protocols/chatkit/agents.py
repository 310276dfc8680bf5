"""The agents of a project as ChatKit sees them: their formats, policies and options."""

from collections.abc import Mapping
from typing import Any

import structlog

from threadwire.errors import ConfigError
from threadwire.graphs.chatkit_config import ChatKitConfig, ChatKitSection, ToolSection
from threadwire.graphs.registry import GraphRegistry
from threadwire.protocols.chatkit.formats import (
    AgentFormat,
    AgentFormats,
    DescribeTag,
    Formats,
    RenderWidget,
    SyncAction,
    ToolFormat,
)
from threadwire.protocols.chatkit.templates import WidgetTemplate

logger = structlog.get_logger("threadwire.chatkit")


class Agents:
    """The configuration of each graph for ChatKit: its section of `langgraph.json` and the formats that the section
    names. It is read again after a reload."""

    def __init__(self, registry: GraphRegistry) -> None:
        self._registry = registry
        self._read: Mapping[str, ChatKitSection] | None = None
        self._formats = AgentFormats()
        self.formats()  # report invalid formats now

    def config(self, graph_id: str) -> ChatKitConfig:
        return self._section(graph_id).config

    def formats(self) -> AgentFormats:
        """Raises `ConfigError` at the start. After a reload, invalid formats are reported and the old ones stay."""
        if self._read is not self._registry.chatkit:
            sections, is_reload = self._registry.chatkit, self._read is not None
            self._read = sections
            try:
                self._formats = AgentFormats({graph_id: agent_format(each) for graph_id, each in sections.items()})
            except ConfigError as error:
                if not is_reload:
                    raise
                logger.warning("chatkit_formats_rejected", error=error.message)
        return self._formats

    def sync_action(self, graph_id: str, action_type: str) -> SyncAction | None:
        return self._code(graph_id).sync_actions.get(action_type)

    def describe_tag(self, graph_id: str) -> DescribeTag | None:
        return self._code(graph_id).describe_tag

    def transcribe(self, graph_id: str) -> Any:
        """The project's function that turns audio into text, if there is one."""
        return self._section(graph_id).transcribe

    def _code(self, graph_id: str) -> Formats:
        formats = self._section(graph_id).formats
        return formats if isinstance(formats, Formats) else Formats()

    def _section(self, graph_id: str) -> ChatKitSection:
        return self._registry.chatkit.get(graph_id) or _DEFAULT


_DEFAULT = ChatKitSection()


def agent_format(section: ChatKitSection) -> AgentFormat:
    """The format of an agent. The project file adds to the formats in its code, and takes precedence. Raises
    `ConfigError`."""
    formats, config = section.formats, section.config
    if formats is None:
        formats = Formats()
    if not isinstance(formats, Formats):
        raise ConfigError(f'"chatkit"."formats": {config.formats} must be a threadwire.chatkit.Formats.')
    templates = {path: WidgetTemplate(source, path) for path, source in section.templates.items()}
    widgets: dict[str, RenderWidget] = {name: templates[path] for name, path in config.widgets.items()}
    tools = {name: _tool(each, formats.tools.get(name), templates) for name, each in config.tools.items()}
    return AgentFormat(
        tools={**formats.tools, **tools},
        widgets={**formats.widgets, **widgets},
        allow_cancel=config.on_disconnect == "cancel",
        subgraphs=config.subgraphs,
        hidden_nodes=frozenset(config.hidden_nodes),
        end_of_turn=config.end_of_turn,
        custom_effects=config.custom_effects,
        skip_value=config.skip_value,
    )


def _tool(section: ToolSection, coded: ToolFormat | None, templates: Mapping[str, WidgetTemplate]) -> ToolFormat:
    base = coded or ToolFormat()
    return ToolFormat(
        title=section.title or base.title,
        icon=section.icon or base.icon,
        progress=base.progress if section.progress is None else section.progress,
        result=base.result if section.widget is None else templates[section.widget],
        task=section.task if "task" in section.model_fields_set else base.task,
        show_errors=section.show_errors or base.show_errors,
        hidden=section.hidden or base.hidden,
    )
