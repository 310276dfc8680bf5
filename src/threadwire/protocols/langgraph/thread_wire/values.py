"""Messages and states with content in LangChain's standard form (v1), whatever form the model used.

Runs store messages as the model returned them. Clients of the thread wire merge a streamed message with the one in the
state by its id, so both must have the same form.
"""

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage

from threadwire.core.entries import Json
from threadwire.core.interrupts import INTERRUPT
from threadwire.core.json import dumps, native
from threadwire.core.message_content import message_type
from threadwire.core.state_fold import JsonState

_TYPES = frozenset({"ai", "human", "system", "tool"})
_V1 = {"output_version": "v1"}


def standard_value(value: Json) -> Json:
    """A value of a state or an update, with its messages in the standard form."""
    if isinstance(value, list):
        return [_standard_message(each) for each in value]
    return _standard_message(value)


def _standard_message(value: Json) -> Json:
    if not isinstance(value, dict) or "content" not in value or "type" not in value:
        return value
    kind = message_type(value)
    if kind not in _TYPES:
        return value
    message = {key: each for key, each in value.items() if each not in (None, {}, []) or key == "content"}
    if kind == "ai":
        metadata = {**message.get("response_metadata", {}), **_V1}
        message |= {"content": content_blocks(value), "response_metadata": metadata}
    return {**message, "type": kind}


def content_blocks(message: dict[str, Json]) -> list[Json]:
    """The content of a model's message as standard blocks."""
    content, metadata = message["content"], message.get("response_metadata") or {}
    if isinstance(content, list) and metadata.get("output_version") == "v1":
        return content
    if isinstance(content, str) and not message.get("additional_kwargs"):
        text = [{"type": "text", "text": content}] if content else []
        return text + [{**call, "type": "tool_call"} for call in message.get("tool_calls") or ()]
    try:
        blocks: list[Json] = native(AIMessage(**{**message, "type": "ai"}).content_blocks)
    except Exception:  # a form that LangChain does not know
        return content if isinstance(content, list) else [{"type": "text", "text": str(content)}]
    return blocks


class StandardState(JsonState):
    """The state of a namespace in the standard form, without its interrupts: those are events of their own."""

    __slots__ = ()

    def _dumps(self, value: Json) -> bytes:
        return dumps(standard_value(value))

    def apply(self, data: dict[str, Any]) -> None:
        if INTERRUPT in data.get("set", ()) or INTERRUPT in data.get("keys", ()):
            data = {**data, "set": _without_interrupt(data.get("set", {}))}
            if "keys" in data:
                data["keys"] = [key for key in data["keys"] if key != INTERRUPT]
        super().apply(data)

    def with_messages(self, ids: list[str]) -> Callable[[], bytes]:
        """Return a function that renders the state as it is now, with these messages at the end of its conversation."""
        state = self.value()
        messages = state.get("messages") if isinstance(state, dict) else None
        if isinstance(messages, list):
            state["messages"] = messages + [{"type": "ai", "id": message_id, "content": []} for message_id in ids]
        return lambda: dumps(state)


def changes_only_interrupts(data: dict[str, Any]) -> bool:
    """Whether a `state` entry looks the same as the previous one to clients that get interrupts separately."""
    if data.get("full") or data.get("splice"):
        return False
    changed = {*data.get("set", ()), *data.get("unset", ())}
    return changed == {INTERRUPT}


def standard_values(values: Json) -> Json:
    """A whole state in the standard form."""
    if not isinstance(values, dict):
        return values
    return {key: standard_value(value) for key, value in _without_interrupt(values).items()}


def _without_interrupt(values: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in values.items() if key != INTERRUPT}
