"""Converts log entries to operations (spec/timeline.md, section 13)."""

from collections.abc import Iterable, Iterator
from typing import Any

from threadwire.core.entries import Entry, Json, Kind
from threadwire.core.timeline.chunks import Message, is_text
from threadwire.core.timeline.forms import custom_operations, interrupts_of
from threadwire.core.timeline.operations import (
    InterruptAnswered,
    InterruptFrozen,
    Interrupts,
    InterruptsPending,
    MessageDelta,
    MessageFull,
    MessageRemove,
    MessageText,
    NamespaceEnded,
    Operation,
    RunEnded,
    RunForked,
    RunInput,
    RunStarted,
    Stamp,
    Values,
    ValuesPatch,
)

INTERRUPT = "__interrupt__"


class EntryNormalizer:
    """Converts entries to operations. It stores the last chunk of each stream: the log has only differences."""

    def __init__(self, messages_key: str) -> None:
        self._messages_key = messages_key
        self._run_id: str | None = None
        self._chunks: dict[int, Message] = {}
        self._plain: dict[int, str] = {}
        """The ids of the messages whose last chunk had only text."""
        self._checkpoint: dict[str, Json] = {}
        self._root_has_messages = False

    def feed(self, entry: Entry) -> tuple[Stamp, Iterable[Operation]]:
        """The operations of an entry, and their stamp."""
        stamp = Stamp(entry.run_id, entry.ns, entry.seq, entry.at)
        if entry.kind == Kind.MESSAGES:
            return stamp, self._message(entry)
        if entry.kind == Kind.TASK:
            if not entry.data.get("ended"):
                return stamp, ()
            inner = (*entry.ns, f"{entry.data['name']}:{entry.data['id']}")
            return stamp._replace(ns=inner), (NamespaceEnded(),)
        return stamp, self._operations(entry)

    def _operations(self, entry: Entry) -> Iterator[Operation]:
        data = entry.data
        match entry.kind:
            case Kind.STATE:
                yield from self._state(entry)
            case Kind.CUSTOM:
                yield from custom_operations(data.get("value"))
            case Kind.RUN_STARTED:
                self._forget(entry)
                yield RunStarted(data.get("attempt", 1))
            case Kind.RUN_ENDED:
                yield self._ended(entry)
            case Kind.CHECKPOINT if not entry.ns:
                self._checkpoint = data
                if data.get("source") == "input":
                    yield RunInput()
            case Kind.STATE_RESET:
                yield from self._reset(data)
            case Kind.INPUT_REQUESTED:
                yield Interrupts(interrupts_of(data["interrupts"], entry.ns))
            case Kind.UPDATES if entry.ns:
                update = data.get("value")
                if isinstance(update, dict) and INTERRUPT in update:
                    yield Interrupts(interrupts_of(update[INTERRUPT], entry.ns))
            case Kind.INPUT_ANSWERED:
                yield _answered(data)
            case Kind.WIDGET_FROZEN:
                frozen = (data["frozen_value"],) if "frozen_value" in data else None
                yield InterruptFrozen(data["interrupt_id"], frozen, data.get("by"))
            case _:
                pass

    # -- messages -----------------------------------------------------------------------------------------------------

    def _message(self, entry: Entry) -> tuple[Operation, ...]:
        data = entry.data
        if type(data) is list:
            return self._text(data[0], data[1])
        if "patch" in data:
            if data["i"] not in self._chunks:
                return ()
            return (MessageDelta(self._remember(data["i"], {**self._chunks[data["i"]], **data["patch"]})),)
        if "chunk" in data:
            return (MessageDelta(self._remember(data["i"], data["chunk"]), data.get("meta"), begin=True),)
        if data.get("root"):
            return ()
        message = data["message"]
        if message.get("type") != "remove":
            return (MessageFull(message, data.get("meta")),)
        return (MessageRemove(str(message.get("id"))),) if entry.ns or not self._root_has_messages else ()

    def _text(self, index: int, text: str) -> tuple[Operation, ...]:
        if index in self._plain:
            return (MessageText(self._plain[index], text),)
        if index not in self._chunks:
            return ()
        return (MessageDelta({**self._chunks[index], "content": text}),)

    def _remember(self, index: int, chunk: Message) -> Message:
        self._chunks[index] = chunk
        self._plain.pop(index, None)
        if isinstance(chunk.get("id"), str) and is_text(chunk):
            self._plain[index] = chunk["id"]
        return chunk

    # -- states -------------------------------------------------------------------------------------------------------

    def _state(self, entry: Entry) -> Iterator[Operation]:
        data = entry.data
        if "value" in data:
            yield Values(data["value"])
            return
        new = {key: value for key, value in data.get("set", {}).items() if key != INTERRUPT}
        unset = tuple(key for key in data.get("unset", ()) if key != INTERRUPT)
        splice = {key: change for key, change in data.get("splice", {}).items() if key != INTERRUPT}
        if not entry.ns and isinstance(new.get(self._messages_key), list):
            self._root_has_messages = True
        if data.get("full") or new or unset or splice:
            yield ValuesPatch(bool(data.get("full")), new, unset, splice)

    def _reset(self, data: dict[str, Any]) -> Iterator[Operation]:
        if data.get("cause") == "fork":
            yield RunForked()
        if "values" in data:
            values = data["values"]
            if isinstance(values, dict) and isinstance(values.get(self._messages_key), list):
                self._root_has_messages = True
            yield Values(values)
        if "interrupts" in data:
            yield InterruptsPending(interrupts_of(data["interrupts"], ()))

    # -- runs ---------------------------------------------------------------------------------------------------------

    def _forget(self, entry: Entry) -> None:
        self._run_id = entry.run_id
        self._chunks, self._plain = {}, {}
        self._checkpoint = {}

    def _ended(self, entry: Entry) -> Operation:
        status = entry.data["status"]
        pending = interrupts_of(entry.data.get("interrupts") or [], ()) if status == "success" else None
        if entry.run_id != self._run_id:  # it ended before it started, while another run had the thread
            return RunEnded(status, pending)
        self._chunks, self._plain = {}, {}
        return RunEnded(status, pending, tuple(self._checkpoint.get("next") or ()), self._checkpoint.get("id"))

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Json]:
        return {
            "runId": self._run_id,
            "chunks": [[index, chunk] for index, chunk in self._chunks.items()],
            "checkpoint": self._checkpoint,
            "rootHasMessages": self._root_has_messages,
        }

    def restore(self, data: dict[str, Any]) -> None:
        self._run_id = data["runId"]
        for index, chunk in data["chunks"]:
            self._remember(index, chunk)
        self._checkpoint = data["checkpoint"]
        self._root_has_messages = data["rootHasMessages"]


def _answered(data: dict[str, Any]) -> Operation:
    answers = data.get("answers")
    if answers is None:
        return InterruptAnswered(None, data.get("value"), data.get("by"), data.get("via"))
    named = tuple((answer["id"], answer.get("response")) for answer in answers)
    return InterruptAnswered(named, None, data.get("by"), data.get("via"))
