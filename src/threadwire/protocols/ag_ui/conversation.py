"""The committed conversation, and what to tell pages when theirs differs.

Pages learn most messages while they are being said. A committed state then brings only what nobody said aloud: people's
messages, what a node wrote by itself, edits, removals. Where a few events do, no snapshot is sent.
"""

from typing import Any

from threadwire.core.entries import Json
from threadwire.protocols.ag_ui import entities
from threadwire.protocols.ag_ui.messages import Message, call_ids, shown_messages, stopped_answer
from threadwire.protocols.ag_ui.stand_ins import StandIns
from threadwire.protocols.ag_ui.view import View, alike
from threadwire.protocols.ag_ui.wire import Event, event

_SIMPLE_ROLES = ("user", "assistant", "system", "developer")


class Conversation:
    def __init__(self, view: View, stand_ins: StandIns, out_of_order: frozenset[str]) -> None:
        self._view = view
        self._stand_ins = stand_ins
        self._out_of_order = out_of_order
        self._committed: list[Message] = []
        self._known = False
        self._activities: dict[str, Message] = {}

    def start_over(self) -> None:
        """The next committed state is all there is: what was said and not kept is taken back."""
        self._known = False

    # -- states --------------------------------------------------------------------------------------------------

    def commit(self, data: dict[str, Any], conversation: list[Json], values: Json) -> list[Event]:
        """The events that bring pages in line with a state that was just committed."""
        if not self._known:
            self._known = True
            self._committed = shown_messages(conversation)
            everything = with_activities(self._committed, values)
            return self._reordered(everything) if everything or self._view.messages() else []
        if not any("messages" in data.get(part, ()) for part in ("set", "splice", "unset")):
            return []
        before = self._committed
        self._committed = shown_messages(conversation)
        if self._committed[: len(before)] == before:
            return self._append(self._committed[len(before) :])
        return self._snapshot(self._with_unsettled())

    def settle(self) -> list[Event]:
        """The end of a run: pages hold what is committed, no more and no less, in its order and to the letter."""
        if not self._known:
            return []
        wanted, held = self._committed, self._view.said()
        if wanted == held:
            return []
        events: list[Event] = []
        if sorted(each["id"] for each in wanted) == sorted(each["id"] for each in held) and [
            each["id"] for each in wanted
        ] != [each["id"] for each in held]:
            # A page keeps the order it has. What stands wrong is taken away first, and then comes anew.
            events += self._snapshot(_common_start(wanted, held))
        return events + self._snapshot(self._committed)

    def unanswered(self) -> list[str]:
        """Calls that have no answer yet: a page is to make them."""
        answered = {each["toolCallId"] for each in self._committed if each["role"] == "tool"}
        return [
            call["id"] for each in self._committed for call in each.get("toolCalls", ()) if call["id"] not in answered
        ]

    def _append(self, messages: list[Message]) -> list[Event]:
        if self._stand_ins.release(messages):
            return self._snapshot(self._with_unsettled())
        events: list[Event] = []
        for message in messages:
            known = self._view.get(message["id"])
            if known is not None and alike(known.message(), message):
                continue
            told = telling(message) if known is None else None
            if told is None:
                return self._snapshot(self._with_unsettled())
            self._view.put(message)
            events += told
        return events

    def _with_unsettled(self) -> list[Message]:
        """What is committed, and behind it what is being said and may yet be."""
        there = {each["id"] for each in self._committed}
        return [*self._committed, *(each for each in self._view.said() if each["id"] not in there)]

    def _reordered(self, messages: list[Message]) -> list[Event]:
        """A page keeps the order it has, so what stands in the wrong place is taken away first."""
        if not self._out_of_order:
            return self._snapshot(messages)
        first = [each for each in messages if each["id"] not in self._out_of_order]
        return self._snapshot(first) + self._snapshot(messages)

    def _snapshot(self, messages: list[Message]) -> list[Event]:
        self._view.replace(messages)
        return [event("MESSAGES_SNAPSHOT", messages=messages)]

    def stopped(self, call_id: str, owner: str | None) -> list[Event]:
        """The tool of a call was stopped at work; a call that pages do not know of needs no answer."""
        answer = stopped_answer(call_id)
        known = any(call_id in call_ids(each) for each in self._view.messages())
        told = telling(answer, owner) if known and answer["id"] not in self._view else None
        if told is None:
            return []
        self._view.put(answer)
        return told

    # -- said by hand --------------------------------------------------------------------------------------------

    def by_hand(self, message: Message, owner: str | None) -> list[Event]:
        """A message that a node said ahead of the one it will return."""
        told = None if message["id"] in self._view else telling(message, owner)
        if told is None:
            return []
        self._stand_ins.add(message if owner is None else {**message, "subagentRunId": owner})
        return told

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
        """With `merge`, a widget's properties are added to those it has, as LangGraph's reducer does."""
        before = self._activities.get(value["id"])
        if before is not None and (value.get("metadata") or {}).get("merge"):
            value = {**value, "props": {**(before.get("props") or {}), **(value.get("props") or {})}}
        self._activities[value["id"]] = value
        return value


def telling(message: Message, owner: str | None = None) -> list[Event] | None:
    """The events that make a page have this message; None if only a snapshot can."""
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
        text = entities.text(message_id, message["role"], message.get("name"), owner, (), None)
        said = [event("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=content)] if content else []
        events += [*text.starts, *said, *text.ends]
    for each in message.get("toolCalls", ()):
        call = entities.call(each["id"], each["function"]["name"], message_id, owner, (), None)
        arguments = event("TOOL_CALL_ARGS", toolCallId=each["id"], delta=each["function"]["arguments"])
        events += [*call.starts, arguments, *call.ends]
    return events


def _activity(widget: dict[str, Json]) -> Message:
    content = {name: widget[name] for name in ("name", "props", "metadata") if widget.get(name) is not None}
    return {"id": widget["id"], "role": "activity", "activityType": str(widget["name"]), "content": content}


def with_activities(messages: list[Message], values: Json) -> list[Message]:
    """A state's widgets among its messages: each behind the one it was pushed for, or at the end."""
    shown = list(messages)
    widgets = values.get("ui") if isinstance(values, dict) else None
    for widget in widgets if isinstance(widgets, list) else ():
        if not isinstance(widget, dict) or not isinstance(widget.get("id"), str) or "name" not in widget:
            continue
        anchor = (widget.get("metadata") or {}).get("message_id")
        at = next((index for index, each in enumerate(shown) if each["id"] == anchor), len(shown) - 1)
        shown.insert(at + 1, _activity(widget))
    return shown


def _common_start(wanted: list[Message], held: list[Message]) -> list[Message]:
    start: list[Message] = []
    for one, other in zip(wanted, held, strict=False):
        if one["id"] != other["id"]:
            break
        start.append(one)
    return start
