"""Messages, tool calls and states that a graph emits with the helpers of CopilotKit and AG-UI, which dispatch custom
events. Long-running nodes use them, because their own results come only at their end."""

from dataclasses import dataclass

from threadwire.core.entries import Entry, Json
from threadwire.core.json import dumps
from threadwire.protocols.ag_ui.messages import Message, tool_call
from threadwire.protocols.ag_ui.wire import Event

_MESSAGE = ("manually_emit_message", "copilotkit_manually_emit_message")
_CALL = ("manually_emit_tool_call", "copilotkit_manually_emit_tool_call")
_STATE = ("manually_emit_state", "copilotkit_manually_emit_intermediate_state")
_EXIT = "copilotkit_exit"


@dataclass(frozen=True, slots=True)
class EmittedState:
    state: Json


def decode_emitted(entry: Entry) -> Message | EmittedState | Event:
    """Return the emitted message or state. Any other or invalid event becomes a CUSTOM event of the same name."""
    name, data = str(entry.data["name"]), entry.data["data"]
    if name in _STATE:
        return EmittedState(data)
    if name in _MESSAGE and (message := _message(data, f"{entry.run_id}:{entry.seq}")) is not None:
        return message
    if name in _CALL and (message := _call(data)) is not None:
        return message
    if name == _EXIT:
        return {"type": "CUSTOM", "name": "Exit", "value": True}
    return {"type": "CUSTOM", "name": name, "value": data}


def _message(data: Json, default_id: str) -> Message | None:
    if not isinstance(data, dict) or not isinstance(data.get("message"), str):
        return None
    return {"id": str(data.get("message_id") or default_id), "role": "assistant", "content": data["message"]}


def _call(data: Json) -> Message | None:
    if not isinstance(data, dict) or not all(isinstance(data.get(name), str) and data[name] for name in ("id", "name")):
        return None
    arguments = data.get("args") or {}
    text = arguments if isinstance(arguments, str) else dumps(arguments).decode()
    return {"id": data["id"], "role": "assistant", "toolCalls": [tool_call(data["id"], data["name"], text)]}
