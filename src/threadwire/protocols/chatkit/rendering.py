"""Calling a project's formats. A format that fails, or returns something invalid, must not break the thread."""

import inspect
from typing import Any

import structlog

from threadwire.core.entries import Json
from threadwire.core.json import native
from threadwire.core.message_content import tool_result_text
from threadwire.protocols.chatkit.contents import annotation
from threadwire.protocols.chatkit.formats import AgentFormat, Sources, Text, ToolFormat
from threadwire.protocols.chatkit.widgets import InvalidWidget, checked, fact_rows, is_widget
from threadwire.protocols.chatkit.wire import Object
from threadwire.protocols.chatkit.workflows import parsed

logger = structlog.get_logger("threadwire.chatkit")

_MAX_PROPS = 20


class Result:
    """A tool's result as its format shows it."""

    def __init__(self) -> None:
        self.content: str | None = None
        """The content of the call's task."""
        self.texts: list[str] = []
        self.widgets: list[Object] = []
        self.annotations: list[Object] = []
        self.problem: InvalidWidget | None = None

    def add(self, rendered: Any) -> None:
        if isinstance(rendered, str):
            self.content = rendered
        elif isinstance(rendered, Text):
            self.texts.append(rendered.markdown)
        elif isinstance(rendered, Sources):
            found = (annotation({"source": native(source)}) for source in rendered.sources)
            self.annotations += [each for each in found if each is not None]
        elif isinstance(rendered, (list, tuple)):
            for each in rendered:
                self.add(each)
        elif rendered is not None:
            self.widgets.append(checked(native(rendered)))


def rendered_result(name: str, tool: ToolFormat, message: Object, args: Json) -> Result:
    """A tool's result, rendered by its format. A result that is itself a widget needs no format."""
    result = Result()
    value = parsed(tool_result_text(message.get("content")))
    artifact = message.get("artifact")
    try:
        if tool.result is not None:
            result.add(_call(tool.result, value if artifact is None else artifact, args))
        else:
            for each in (artifact, value):
                if is_widget(each):
                    result.add(each)
                    break
    except InvalidWidget as error:
        result.problem = error
    except Exception as error:
        logger.warning("tool_format_failed", tool=name, error=repr(error))
    return result


def _call(render: Any, value: Json, args: Json) -> Any:
    """Call a format with the result, and with the arguments of the tool call if it takes a second parameter."""
    parameters = inspect.signature(render).parameters.values()
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return render(value, args) if len(positional) > 1 else render(value)


def rendered_ui(agent: AgentFormat, ui: Object) -> Object:
    """The widget of a UI message: the one that the agent's format renders, or a card that lists its props. Raises
    `InvalidWidget`."""
    name, props = str(ui.get("name") or "Widget"), ui.get("props")
    render = agent.widgets.get(name)
    if render is None:
        own = props.get("widget") if isinstance(props, dict) else None
        return checked(own) if is_widget(own) else _plain_card(name, props)
    try:
        return checked(native(render(props if isinstance(props, dict) else {})))
    except InvalidWidget:
        raise
    except Exception as error:
        logger.warning("widget_format_failed", widget=name, error=repr(error))
        raise InvalidWidget(f"the format of {name!r} failed") from error


def _plain_card(name: str, props: Json) -> Object:
    facts = list(props.items())[:_MAX_PROPS] if isinstance(props, dict) else []
    heading = {"type": "Title", "value": name.replace("_", " ").replace("-", " ").capitalize(), "size": "sm"}
    return checked({"type": "Card", "size": "md", "children": [heading, *fact_rows(facts)]})
