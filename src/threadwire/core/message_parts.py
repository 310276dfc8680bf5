"""The parts of streamed messages: when text, reasoning and tool calls start, grow and end."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from threadwire.core.entries import Json, Namespace
from threadwire.core.message_content import derived_call_id, message_type, reasoning_of, text_of, tool_calls_of
from threadwire.core.message_fold import Change, StreamedMessage
from threadwire.core.open_parts import OpenParts, Part, PartChange, PartDelta


class MessageWithParts(StreamedMessage):
    """A streamed message, and the state of its parts."""

    __slots__ = ("calls", "plain_text", "started_calls", "task")

    def __init__(self, message_id: str, fields: dict[str, Json], meta: Json, ns: Namespace, change: Change) -> None:
        super().__init__(message_id, fields, meta, ns, change)
        self.task = task_of(meta or {})
        self.calls: dict[Json, str] = {}
        """The ids of the calls by their index in the message."""
        self.started_calls: set[str] = set()
        self.plain_text: Part | None = None
        """The open text part, if an entry `[number, text]` does nothing but append to it. None if such an entry has to
        be inspected."""


M = TypeVar("M", bound=MessageWithParts)


class MessageParts(Generic[M]):
    """Opens and closes the parts of messages in `opened`.

    `shows` returns whether the reader wants a part. Unwanted text and reasoning are skipped; an unwanted call still
    ends the parts before it.
    """

    def __init__(self, opened: OpenParts, shows: Callable[[M, Part], bool] = lambda message, part: True) -> None:
        self._open = opened
        self._shows = shows

    def feed(self, message: M) -> list[PartChange]:
        """Return the changes of the message's last entry, in order. Only a model's messages have parts."""
        message.plain_text = None
        fields = message.fields
        if message_type(fields) != "ai":
            return []
        content, additional = message.content, fields.get("additional_kwargs")
        calls = list(_call_chunks(message))
        changes: list[PartChange] = []
        if reasoning := reasoning_of(content, additional):
            changes += self._append_reasoning(message, reasoning)
        if text := text_of(content):
            changes += self._append_text(message, text)
        for call in calls:
            changes += self._append_call(message, call)
        if message.change == "whole" or fields.get("chunk_position") == "last":
            return changes + self._close(message)
        part = self._open.get(("text", message.id))
        if part is not None and not (calls or additional or isinstance(content, list)) and self._shows(message, part):
            message.plain_text = part
        return changes

    def _append_reasoning(self, message: M, text: str) -> list[PartChange]:
        part = Part("reasoning", message.id, message.ns, task=message.task)
        part = self._open.get(part.key) or part
        if not self._shows(message, part):
            return []
        changes = self._open.close(("text", message.id))
        changes += [] if part.is_open else [self._open.open(part)]
        return [*changes, PartDelta(part, text)]

    def _append_text(self, message: M, text: str) -> list[PartChange]:
        part = Part("text", message.id, message.ns, message.fields.get("name") or None, task=message.task)
        part = self._open.get(part.key) or part
        if not self._shows(message, part):
            return []
        if part.is_open:
            return [PartDelta(part, text)]
        closed = self._open.close(("reasoning", message.id)) + self._close_calls(message)
        return [*closed, self._open.open(part), PartDelta(part, text)]

    def _append_call(self, message: M, call: dict[str, Json]) -> list[PartChange]:
        changes: list[PartChange] = []
        index = call.get("index")
        call_id = message.calls.get(index)
        if call_id is None or (call.get("id") and call["id"] != call_id):
            call_id = str(call.get("id") or derived_call_id(message.id, len(message.calls)))
            changes += self._start_call(message, index, call_id, str(call.get("name") or ""))
        part = self._open.get(("call", call_id))
        if part is not None and call.get("args"):
            changes.append(PartDelta(part, str(call["args"])))
        return changes

    def _start_call(self, message: M, index: Json, call_id: str, name: str) -> list[PartChange]:
        closed = self._open.close(("text", message.id)) + self._open.close(("reasoning", message.id))
        closed += self._close_calls(message)
        message.calls[index] = call_id
        part = Part("call", call_id, message.ns, name, message.id, message.task)
        if call_id in message.started_calls or not self._shows(message, part):
            return closed
        message.started_calls.add(call_id)
        closed += self._open.close(part.key)  # some models use one id in several messages
        return [*closed, self._open.open(part)]

    def _close_calls(self, message: M) -> list[PartChange]:
        return [change for call_id in message.calls.values() for change in self._open.close(("call", call_id))]

    def _close(self, message: M) -> list[PartChange]:
        closed = self._open.close(("text", message.id)) + self._close_calls(message)
        return closed + self._open.close(("reasoning", message.id))


def _call_chunks(message: StreamedMessage) -> Iterable[dict[str, Json]]:
    if message.change != "whole":
        return message.fields.get("tool_call_chunks") or ()
    calls = tool_calls_of(message.fields, message.id)
    return [
        {"index": index, "id": call.id, "name": call.name, "args": call.arguments} for index, call in enumerate(calls)
    ]


def task_of(meta: dict[str, Json]) -> str | None:
    """The task in which the model runs: the last part of its checkpoint namespace."""
    path = str(meta.get("langgraph_checkpoint_ns") or meta.get("checkpoint_ns") or "")
    return path.rpartition("|")[2].partition(":")[2] or None
