"""The committed conversation, and the events that update clients to it.

Clients receive most messages while they are streamed. A committed state adds only what was not streamed: users'
messages, messages that a node wrote itself, edits, removals. No snapshot is sent where a few events suffice.
"""

from typing import Any

from threadwire.core.entries import Json
from threadwire.protocols.ag_ui.client_view import ClientView, equivalent
from threadwire.protocols.ag_ui.messages import Message, call_ids, shown_messages, stopped_result
from threadwire.protocols.ag_ui.part_events import (
    call_arguments,
    call_end,
    call_start,
    text_content,
    text_end,
    text_start,
)
from threadwire.protocols.ag_ui.placeholders import Placeholders
from threadwire.protocols.ag_ui.wire import Event, event

_SIMPLE_ROLES = ("user", "assistant", "system", "developer")


class Conversation:
    def __init__(self, view: ClientView, placeholders: Placeholders, out_of_order: frozenset[str]) -> None:
        self._view = view
        self._placeholders = placeholders
        self._out_of_order = out_of_order
        self._committed: list[Message] = []
        self._has_state = False
        self._activities: dict[str, Message] = {}

    def reset(self) -> None:
        """The next committed state replaces everything: messages that were streamed and not committed are removed."""
        self._has_state = False

    # -- states --------------------------------------------------------------------------------------------------

    def commit(self, data: dict[str, Any], conversation: list[Json], values: Json) -> list[Event]:
        """The events that update clients to a state that was just committed."""
        if not self._has_state:
            self._has_state = True
            self._committed = shown_messages(conversation)
            everything = with_activities(self._committed, values)
            return self._reordered(everything) if everything or self._view.messages() else []
        if not any("messages" in data.get(part, ()) for part in ("set", "splice", "unset")):
            return []
        before = self._committed
        self._committed = shown_messages(conversation)
        if self._committed[: len(before)] == before:
            return self._append(self._committed[len(before) :])
        return self._snapshot(self._with_uncommitted())

    def finish(self) -> list[Event]:
        """The events at the end of a run. After them, clients have exactly the committed messages, in their order."""
        if not self._has_state:
            return []
        committed, held = self._committed, self._view.without_activities()
        if committed == held:
            return []
        events: list[Event] = []
        if sorted(each["id"] for each in committed) == sorted(each["id"] for each in held) and [
            each["id"] for each in committed
        ] != [each["id"] for each in held]:
            # Clients never reorder messages. Those in the wrong place are removed first, and then added again.
            events += self._snapshot(_common_start(committed, held))
        return events + self._snapshot(self._committed)

    def unanswered(self) -> list[str]:
        """Tool calls that have no result yet, because the client has to execute them."""
        answered = {each["toolCallId"] for each in self._committed if each["role"] == "tool"}
        return [
            call["id"] for each in self._committed for call in each.get("toolCalls", ()) if call["id"] not in answered
        ]

    def _append(self, messages: list[Message]) -> list[Event]:
        if self._placeholders.remove_for(messages):
            return self._snapshot(self._with_uncommitted())
        events: list[Event] = []
        for message in messages:
            known = self._view.get(message["id"])
            if known is not None and equivalent(known.message(), message):
                continue
            added = _message_events(message) if known is None else None
            if added is None:
                return self._snapshot(self._with_uncommitted())
            self._view.put(message)
            events += added
        return events

    def _with_uncommitted(self) -> list[Message]:
        """The committed messages, followed by those that are still streamed and may be committed later."""
        committed = {each["id"] for each in self._committed}
        return [*self._committed, *(each for each in self._view.without_activities() if each["id"] not in committed)]

    def _reordered(self, messages: list[Message]) -> list[Event]:
        """A snapshot. Clients never reorder messages, so those in the wrong place are removed first."""
        if not self._out_of_order:
            return self._snapshot(messages)
        first = [each for each in messages if each["id"] not in self._out_of_order]
        return self._snapshot(first) + self._snapshot(messages)

    def _snapshot(self, messages: list[Message]) -> list[Event]:
        self._view.replace(messages)
        return [event("MESSAGES_SNAPSHOT", messages=messages)]

    def stopped(self, call_id: str, owner: str | None) -> list[Event]:
        """The events for a tool that was stopped while it ran. A call that clients do not have needs no result."""
        result = stopped_result(call_id)
        known = any(call_id in call_ids(each) for each in self._view.messages())
        events = _message_events(result, owner) if known and result["id"] not in self._view else None
        if events is None:
            return []
        self._view.put(result)
        return events

    # -- emitted messages ----------------------------------------------------------------------------------------

    def emit(self, message: Message, owner: str | None) -> list[Event]:
        """The events for a message that a node emits ahead of the one it will return."""
        events = None if message["id"] in self._view else _message_events(message, owner)
        if events is None:
            return []
        self._placeholders.add(message if owner is None else {**message, "subagentRunId": owner})
        return events

    # -- activities ----------------------------------------------------------------------------------------------

    def activity(self, value: Json) -> Event | None:
        """A widget that a node pushed (`push_ui_message`), or its removal."""
        if not isinstance(value, dict) or not isinstance(value.get("id"), str):
            return None
        if value.get("type") == "remove-ui":
            message = {"id": value["id"], "role": "activity", "activityType": "removed", "content": {}}
        elif value.get("type") == "ui" and isinstance(value.get("name"), str):
            message = _activity(self._merged(value))
        else:
            return None
        self._view.put(message)
        return event(
            "ACTIVITY_SNAPSHOT",
            messageId=message["id"],
            activityType=message["activityType"],
            content=message["content"],
            replace=True,
        )

    def _merged(self, value: dict[str, Json]) -> dict[str, Json]:
        """With `merge`, a widget's properties are merged into those it has, as in LangGraph's reducer."""
        before = self._activities.get(value["id"])
        if before is not None and (value.get("metadata") or {}).get("merge"):
            value = {**value, "props": {**(before.get("props") or {}), **(value.get("props") or {})}}
        self._activities[value["id"]] = value
        return value


def _message_events(message: Message, owner: str | None = None) -> list[Event] | None:
    """The events that add this message to a client's conversation; None if only a snapshot can."""
    message_id, content = message["id"], message.get("content")
    if message["role"] == "tool":
        return [
            event(
                "TOOL_CALL_RESULT",
                messageId=message_id,
                toolCallId=message["toolCallId"],
                content=content,
                role="tool",
                subagentRunId=owner,
            )
        ]
    if message["role"] not in _SIMPLE_ROLES or not (content is None or isinstance(content, str)):
        return None
    events: list[Event] = []
    if content is not None:
        events.append(text_start(message_id, message["role"], message.get("name"), owner))
        events += [text_content(message_id, content)] if content else []
        events.append(text_end(message_id))
    for each in message.get("toolCalls", ()):
        events += [
            call_start(each["id"], each["function"]["name"], message_id, owner),
            call_arguments(each["id"], each["function"]["arguments"]),
            call_end(each["id"]),
        ]
    return events


def _activity(widget: dict[str, Json]) -> Message:
    content = {name: widget[name] for name in ("name", "props", "metadata") if widget.get(name) is not None}
    return {"id": widget["id"], "role": "activity", "activityType": str(widget["name"]), "content": content}


def with_activities(messages: list[Message], values: Json) -> list[Message]:
    """The messages with the state's widgets: each after the message it was pushed for, or at the end."""
    shown = list(messages)
    widgets = values.get("ui") if isinstance(values, dict) else None
    for widget in widgets if isinstance(widgets, list) else ():
        if not isinstance(widget, dict) or not isinstance(widget.get("id"), str) or "name" not in widget:
            continue
        anchor = (widget.get("metadata") or {}).get("message_id")
        at = next((index for index, each in enumerate(shown) if each["id"] == anchor), len(shown) - 1)
        shown.insert(at + 1, _activity(widget))
    return shown


def _common_start(committed: list[Message], held: list[Message]) -> list[Message]:
    start: list[Message] = []
    for ours, theirs in zip(committed, held, strict=False):
        if ours["id"] != theirs["id"]:
            break
        start.append(ours)
    return start
