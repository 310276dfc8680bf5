"""The spans that are open in a stream: text messages, tool calls, reasoning, steps, subagents.

No span may be open when a run finishes, and a client that joins in the middle must receive the start of every open
one. So every start is kept until its end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from threadwire.core.entries import Namespace
from threadwire.protocols.ag_ui.wire import Event, event

Key = tuple[str, str]
"""The kind of a span (`text`, `call`, `reasoning`, `step`, `subagent`) and its name."""

_CLOSING_ORDER = ("text", "call", "reasoning", "step", "subagent")


@dataclass(slots=True)
class Span:
    starts: list[Event]
    ends: list[Event]
    ns: Namespace
    task: str | None = None
    """The task that opened the span. The span is closed when the task ends, or before."""
    holders: int = field(default=1)
    """Concurrent steps of the same name are one step to a client."""


class OpenSpans:
    def __init__(self) -> None:
        self._open: dict[Key, Span] = {}
        self.keys = self._open.keys()
        """A live view of what is open."""

    def __contains__(self, key: Key) -> bool:
        return key in self._open

    def open(self, key: Key, span: Span) -> list[Event]:
        self._open[key] = span
        return span.starts

    def hold(self, key: Key) -> None:
        self._open[key].holders += 1

    def release(self, key: Key) -> list[Event]:
        """Drop one holder, and close the span if it was the last."""
        if (span := self._open.get(key)) is None:
            return []
        span.holders -= 1
        return [] if span.holders else self.close(key)

    def close(self, key: Key) -> list[Event]:
        span = self._open.pop(key, None)
        return [] if span is None else span.ends

    def close_where(self, matches: Callable[[Key, Span], bool]) -> list[Event]:
        """Close the spans that match, inner ones first."""
        keys = [key for key, span in self._open.items() if matches(key, span)]
        keys.sort(key=lambda key: (_CLOSING_ORDER.index(key[0]), -len(self._open[key].ns)))
        return [each for key in keys for each in self.close(key)]

    def close_all(self) -> list[Event]:
        return self.close_where(lambda key, span: True)

    def starts(self) -> list[Event]:
        """The start events of all open spans, for a client that joins now."""
        return [each for span in self._open.values() for each in span.starts]

    def subagents_in(self, within: Callable[[Namespace], bool]) -> list[str]:
        """The subagents whose namespaces match, inner ones first."""
        found = [key for key, span in self._open.items() if key[0] == "subagent" and within(span.ns)]
        return [name for _, name in sorted(found, key=lambda key: -len(self._open[key].ns))]


def text(message_id: str, role: str, name: str | None, owner: str | None, ns: Namespace, task: str | None) -> Span:
    start = event("TEXT_MESSAGE_START", messageId=message_id, role=role, name=name, subagentRunId=owner)
    return Span([start], [event("TEXT_MESSAGE_END", messageId=message_id)], ns, task)


def call(call_id: str, name: str, message_id: str, owner: str | None, ns: Namespace, task: str | None) -> Span:
    start = event(
        "TOOL_CALL_START", toolCallId=call_id, toolCallName=name, parentMessageId=message_id, subagentRunId=owner
    )
    return Span([start], [event("TOOL_CALL_END", toolCallId=call_id)], ns, task)


def reasoning(message_id: str, owner: str | None, ns: Namespace, task: str | None) -> Span:
    starts = [
        event("REASONING_START", messageId=message_id, subagentRunId=owner),
        event("REASONING_MESSAGE_START", messageId=message_id, role="reasoning", subagentRunId=owner),
    ]
    ends = [event("REASONING_MESSAGE_END", messageId=message_id), event("REASONING_END", messageId=message_id)]
    return Span(starts, ends, ns, task)


def step(name: str, owner: str | None, ns: Namespace) -> Span:
    start = event("STEP_STARTED", stepName=name, subagentRunId=owner)
    return Span([start], [event("STEP_FINISHED", stepName=name, subagentRunId=owner)], ns)


def subagent(subagent_id: str, name: str, parent: str | None, ns: Namespace) -> Span:
    start = event("SUBAGENT_STARTED", subagentRunId=subagent_id, name=name, parentSubagentRunId=parent)
    return Span([start], [event("SUBAGENT_FINISHED", subagentRunId=subagent_id)], ns)
