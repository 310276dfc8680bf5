"""The wire format of AG-UI events: camelCase JSON without nulls. The messages have no name; each event has its type."""

from collections.abc import Iterable
from typing import Any

from threadwire.core.encoder import Message
from threadwire.core.entries import Json
from threadwire.core.json import dumps

PROTOCOL_VERSION = "1.0"

_COPILOTKIT = "__copilotkit_interrupt_value__"
"""The key under which `copilotkit_interrupt` puts its question."""

Event = dict[str, Any]


def event(kind: str, **fields: Json) -> Event:
    """An event without the fields that are None, because older clients fail on null."""
    return {"type": kind, **{name: value for name, value in fields.items() if value is not None}}


def encoded(events: Iterable[Event]) -> list[Message]:
    return [(b"", dumps(each)) for each in events]


def run_started(thread_id: str, run_id: str) -> Event:
    return event("RUN_STARTED", threadId=thread_id, runId=run_id, protocolVersion=PROTOCOL_VERSION)


def run_finished(thread_id: str, run_id: str, outcome: Json | None = None, usage: list[Json] | None = None) -> Event:
    return event("RUN_FINISHED", threadId=thread_id, runId=run_id, outcome=outcome, usage=usage or None)


def run_error(message: str, code: str) -> Event:
    return event("RUN_ERROR", message=message, code=code)


def thread_deleted(thread_id: str) -> Event:
    """The end of a stream whose thread was deleted. The code is the HTTP status of all later requests for it."""
    return run_error(f"Thread '{thread_id}' was deleted", "404")


def run_failed(run_id: str, error: Json) -> Event:
    """How the thread's last run ended, for a client that connects later. Connecting itself does not fail."""
    return event("CUSTOM", name="run_failed", value={"runId": run_id, "error": error})


def interrupt_outcome(interrupts: list[Json]) -> Json | None:
    """The outcome of a run with pending interrupts; None if there are none."""
    if not interrupts:
        return None
    return {"type": "interrupt", "interrupts": [interrupt_json(each) for each in interrupts]}


def interrupt_json(interrupt: Json) -> Json:
    """A LangGraph interrupt in AG-UI's format, which has a reason and a message; the value itself is in `metadata`."""
    value = interrupt.get("value")
    shown: dict[str, Json] = {
        "id": str(interrupt.get("id")),
        "reason": _text_of(value, "reason", "type") or "interrupt",
        "metadata": {"value": value},
    }
    if (
        message := value
        if isinstance(value, str)
        else _text_of(value, "message", "question", "description", _COPILOTKIT)
    ) is not None:
        shown["message"] = message
    if (call := _text_of(value, "toolCallId", "tool_call_id")) is not None:
        shown["toolCallId"] = call
    if isinstance(schema := interrupt.get("response_schema"), dict):
        shown["responseSchema"] = schema
    return shown


def legacy_interrupts(interrupts: list[Json]) -> list[Event]:
    """The events for hooks from before runs had outcomes: a string is sent unchanged, any other value as JSON."""
    values = [each.get("value") for each in interrupts]
    texts = [value if isinstance(value, str) else dumps(value).decode() for value in values]
    return [event("CUSTOM", name="on_interrupt", value=text) for text in texts]


def _text_of(value: Json, *names: str) -> str | None:
    if isinstance(value, dict):
        for name in names:
            if isinstance(found := value.get(name), str) and found:
                return found
    return None
