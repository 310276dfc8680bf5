"""The events of message parts, steps and subagents. A subgraph is a subagent to AG-UI."""

from collections.abc import Iterable
from typing import Any

from threadwire.core.entries import Json, Namespace
from threadwire.core.json import dumps
from threadwire.core.open_parts import Part, PartChange, PartDelta, PartStarted
from threadwire.protocols.ag_ui.messages import reasoning_id
from threadwire.protocols.ag_ui.wire import Event, event


class PartEvents:
    """The events of an attempt's parts."""

    def __init__(self) -> None:
        self._suffix = ""

    def start_attempt(self, attempt: int) -> None:
        self._suffix = f"#{attempt}"

    def subagent(self, ns: Namespace) -> str | None:
        """The subagent id of a subgraph; None for the root. Each attempt has its own."""
        return "|".join(ns) + self._suffix if ns else None

    def of(self, changes: Iterable[PartChange], task: dict[str, Any] | None = None) -> list[Event]:
        """The events of these changes. `task` is the entry of the task whose end caused them."""
        return [each for change in changes for each in self._of_change(change, task or {})]

    def starts(self, parts: Iterable[Part]) -> list[Event]:
        """The start events of parts that are open, for a client that joins now."""
        return [each for part in parts for each in self._start(part)]

    def _of_change(self, change: PartChange, task: dict[str, Any]) -> list[Event]:
        match change:
            case PartStarted(part):
                return self._start(part)
            case PartDelta(part, text):
                return [_delta(part, text)]
        return self._end(change.part, task)

    def _start(self, part: Part) -> list[Event]:
        owner = self.subagent(part.ns)
        match part.kind:
            case "text":
                return [text_start(part.id, "assistant", part.name, owner)]
            case "call":
                return [call_start(part.id, part.name, part.message_id, owner)]
            case "reasoning":
                message_id = reasoning_id(part.id)
                return [
                    event("REASONING_START", messageId=message_id, subagentRunId=owner),
                    event("REASONING_MESSAGE_START", messageId=message_id, role="reasoning", subagentRunId=owner),
                ]
            case "step":
                return [event("STEP_STARTED", stepName=part.name, subagentRunId=owner)]
        parent = self.subagent(part.ns[:-1])
        return [event("SUBAGENT_STARTED", subagentRunId=owner, name=part.name, parentSubagentRunId=parent)]

    def _end(self, part: Part, task: dict[str, Any]) -> list[Event]:
        match part.kind:
            case "text":
                return [text_end(part.id)]
            case "call":
                return [call_end(part.id)]
            case "reasoning":
                message_id = reasoning_id(part.id)
                return [
                    event("REASONING_MESSAGE_END", messageId=message_id),
                    event("REASONING_END", messageId=message_id),
                ]
            case "step":
                return [event("STEP_FINISHED", stepName=part.name, subagentRunId=self.subagent(part.ns))]
        return [_subagent_end(self.subagent(part.ns), task)]


def _delta(part: Part, text: str) -> Event:
    match part.kind:
        case "call":
            return call_arguments(part.id, text)
        case "reasoning":
            return event("REASONING_MESSAGE_CONTENT", messageId=reasoning_id(part.id), delta=text)
    return text_content(part.id, text)


def _subagent_end(subagent_id: str | None, task: dict[str, Any]) -> Event:
    if task.get("error") is not None:
        return event("SUBAGENT_ERROR", subagentRunId=subagent_id, message=_message_of(task["error"]))
    if task.get("interrupts"):
        ids = [str(each.get("id")) for each in task["interrupts"]]
        return event("SUBAGENT_FINISHED", subagentRunId=subagent_id, outcome={"type": "suspended", "interruptIds": ids})
    return event("SUBAGENT_FINISHED", subagentRunId=subagent_id)


def _message_of(error: Json) -> str:
    return error if isinstance(error, str) else dumps(error).decode()


# -- texts and calls, also of messages that were not streamed ---------------------------------------------------------


def text_start(message_id: str, role: str, name: str | None, owner: str | None) -> Event:
    return event("TEXT_MESSAGE_START", messageId=message_id, role=role, name=name, subagentRunId=owner)


def text_content(message_id: str, text: str) -> Event:
    return event("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=text)


def text_end(message_id: str) -> Event:
    return event("TEXT_MESSAGE_END", messageId=message_id)


def call_start(call_id: str, name: str | None, message_id: str | None, owner: str | None) -> Event:
    return event(
        "TOOL_CALL_START", toolCallId=call_id, toolCallName=name, parentMessageId=message_id, subagentRunId=owner
    )


def call_arguments(call_id: str, text: str) -> Event:
    return event("TOOL_CALL_ARGS", toolCallId=call_id, delta=text)


def call_end(call_id: str) -> Event:
    return event("TOOL_CALL_END", toolCallId=call_id)
