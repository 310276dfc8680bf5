"""How an agent's tools, widgets and events look in ChatKit. Part of the public API: `threadwire.chatkit` exports it.

Formats are used while a thread's log is folded into items. A function that renders a result must be a pure function of
its arguments, and fast: it is called in a separate OS thread, but all readers of the conversation wait for it.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from threadwire.core.entries import Json
from threadwire.core.json import dumps
from threadwire.protocols.chatkit.icons import TOOL, known_icon

Widget = dict[str, Any]
TaskKind = Literal["custom", "web_search"]


@dataclass(frozen=True, slots=True)
class Text:
    """A result that is shown as a message of its own, in Markdown. The model does not see it."""

    markdown: str


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of the assistant message that follows, each a URL, file or entity source in ChatKit's form."""

    sources: list[dict[str, Any]]


Rendered = str | Text | Widget | Sources | None
"""How a result is shown: the content of the tool's task in Markdown, a message, a widget, sources of the assistant
message that follows, or nothing but the task."""

RenderResult = Callable[..., Any]
"""Takes a tool's result, parsed if it is JSON, and optionally the call's arguments. Returns one `Rendered` or a list of
them."""
RenderWidget = Callable[[Mapping[str, Any]], Widget]
"""Takes the props of a UI message."""

SyncAction = Callable[..., Any]
"""Takes an action's payload and the item that it came from. Returns the item's new widget, or None."""

DescribeTag = Callable[[Mapping[str, Any]], Any]
"""Takes a tag of a message, with `id`, `text` and `data`. Returns its description for the model, or None."""

R = TypeVar("R", bound=RenderResult)
W = TypeVar("W", bound=RenderWidget)
A = TypeVar("A", bound=SyncAction)
T = TypeVar("T", bound=DescribeTag)


@dataclass(frozen=True, slots=True)
class ToolFormat:
    title: str | None = None
    """The title of the tool's task. `{name}` is replaced by the argument `name` of the call."""
    icon: str | None = None
    progress: str | None = None
    """What clients show while the tool runs, instead of its title."""
    result: RenderResult | None = None
    task: TaskKind = "custom"
    show_errors: bool = False
    """Whether the text of a failed call is shown. It may contain the text of an exception."""
    hidden: bool = False
    """Whether calls to the tool are hidden."""

    def titled(self, name: str, args: Json) -> str:
        if self.title is None:
            return name.replace("_", " ").strip().capitalize() or "Tool"
        try:
            return self.title.format_map(_Arguments(args if isinstance(args, dict) else {}))
        except (ValueError, IndexError, AttributeError, KeyError, TypeError):
            return self.title

    @property
    def known_icon(self) -> str:
        return known_icon(self.icon, TOOL) or TOOL


class _Arguments(dict[str, Any]):
    """Arguments that have not arrived yet are an ellipsis."""

    def __missing__(self, key: str) -> str:
        return "…"


@dataclass(frozen=True, slots=True)
class AgentFormat:
    """Everything that the items of an agent depend on, except for the log."""

    tools: Mapping[str, ToolFormat] = field(default_factory=dict)
    widgets: Mapping[str, RenderWidget] = field(default_factory=dict)
    allow_cancel: bool = False
    subgraphs: bool = False
    """Whether messages of subgraphs are shown while they are streamed, instead of one task for each subgraph."""
    hidden_nodes: frozenset[str] = frozenset()
    """Nodes whose messages are not shown."""
    end_of_turn: bool = True
    custom_effects: bool = False
    """Whether custom events that have no meaning here are passed on as client effects."""
    skip_value: Json = None
    """The answer to an interrupt whose questions were skipped."""

    def tool(self, name: str) -> ToolFormat:
        return self.tools.get(name) or _PLAIN


_PLAIN = ToolFormat()


class Formats:
    """A registry of formats for one agent. Name it in `langgraph.json`, in the agent's `chatkit` section.

    formats = Formats()

    @formats.tool("show_schedule_overview", title="Schedule overview", icon="calendar")
    def overview(result: dict[str, Any]) -> str:
        return result["message"]
    """

    def __init__(self) -> None:
        self.tools: dict[str, ToolFormat] = {}
        self.widgets: dict[str, RenderWidget] = {}
        self.sync_actions: dict[str, SyncAction] = {}
        self.describe_tag: DescribeTag | None = None

    def tool(
        self,
        name: str,
        *,
        title: str | None = None,
        icon: str | None = None,
        progress: str | None = None,
        task: TaskKind = "custom",
        show_errors: bool = False,
        hidden: bool = False,
    ) -> Callable[[R], R]:
        """Register how calls to a tool look. The decorated function renders the result."""
        described = ToolFormat(title, icon, progress, None, task, show_errors, hidden)
        self.tools[name] = described

        def register(render: R) -> R:
            self.tools[name] = replace(described, result=render)
            return render

        return register

    def widget(self, name: str) -> Callable[[W], W]:
        """Register how the UI messages with this name look. A graph sends them with `push_ui_message`."""

        def register(render: W) -> W:
            self.widgets[name] = render
            return render

        return register

    def sync_action(self, action_type: str) -> Callable[[A], A]:
        """Register what an action with `streaming: false` does. The function may be async; it runs on the
        reads loop, not in a run. Its widget replaces that of the item."""

        def register(handle: A) -> A:
            self.sync_actions[action_type] = handle
            return handle

        return register

    def tag(self, describe: T) -> T:
        """Register a function that describes the tags of a message to the model, which otherwise receives their data.
        The function may be async; it runs on the reads loop, before the message is accepted."""
        self.describe_tag = describe
        return describe


class AgentFormats:
    """The formats of all agents of a project."""

    def __init__(self, by_graph: Mapping[str, AgentFormat] | None = None) -> None:
        self._by_graph = dict(by_graph or {})
        self.digest = hashlib.sha256("\n".join(_described(self._by_graph)).encode()).hexdigest()[:12]
        """Changes whenever any item could look different, so that items computed earlier are not reused."""
        self.call_functions = any(_has_functions(agent) for agent in self._by_graph.values())
        """Whether any of them calls functions of the project."""

    def of(self, graph_id: str | None) -> AgentFormat:
        return self._by_graph.get(graph_id or "", _DEFAULT)


_DEFAULT = AgentFormat()


def _has_functions(agent: AgentFormat) -> bool:
    return bool(agent.widgets) or any(tool.result is not None for tool in agent.tools.values())


def _described(by_graph: Mapping[str, AgentFormat]) -> Iterable[str]:
    for graph_id, agent in sorted(by_graph.items()):
        options = (agent.allow_cancel, agent.subgraphs, agent.end_of_turn, agent.custom_effects)
        yield f"{graph_id} {options} {sorted(agent.hidden_nodes)} {dumps(agent.skip_value)!r}"
        for name, tool in sorted(agent.tools.items()):
            yield f"{name} {replace(tool, result=None)} {_source(tool.result)}"
        for name, render in sorted(agent.widgets.items()):
            yield f"{name} {_source(render)}"


def _source(function: object) -> str:
    """What identifies a function's behaviour: its source, or its name if the source is not available."""
    if function is None:
        return ""
    if isinstance(template := getattr(function, "template", None), str):
        return template
    try:
        return inspect.getsource(function)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return getattr(function, "__qualname__", type(function).__qualname__)
