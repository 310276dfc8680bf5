"""Log entries made into operations (spec/timeline.md, section 13)."""

from collections.abc import Iterator
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

WIDGET_FROZEN = "widget.frozen"
"""The kind of an entry that holds what a widget showed when its interrupt was submitted (13.4)."""

INTERRUPT = "__interrupt__"


class EntryNormalizer:
    """Makes operations of entries. It remembers the chunks that are streaming, because the log stores what changed."""

    def __init__(self, messages_key: str) -> None:
        self._messages_key = messages_key
        self._run_id: str | None = None
        self._chunks: dict[int, Message] = {}
        self._checkpoint: dict[str, Json] = {}
        self._root_has_messages = False

    def feed(self, entry: Entry) -> Iterator[tuple[Operation, Stamp]]:
        """The operations of an entry, each with its stamp."""
        stamp = Stamp(run_id=entry.run_id, ns=tuple(entry.ns), seq=entry.seq, at=entry.at)
        if entry.kind == Kind.TASK:
            if entry.data.get("ended"):
                inner = (*stamp.ns, f"{entry.data['name']}:{entry.data['id']}")
                yield NamespaceEnded(), Stamp(run_id=entry.run_id, ns=inner, seq=entry.seq, at=entry.at)
            return
        for operation in self._operations(entry):
            yield operation, stamp

    def _operations(self, entry: Entry) -> Iterator[Operation]:
        data = entry.data
        match entry.kind:
            case Kind.MESSAGES:
                yield from self._message(entry)
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
            case kind if kind == WIDGET_FROZEN:
                frozen = (data["frozen_value"],) if "frozen_value" in data else None
                yield InterruptFrozen(data["interrupt_id"], frozen, data.get("by"))
            case _:
                pass

    # -- messages -----------------------------------------------------------------------------------------------------

    def _message(self, entry: Entry) -> Iterator[Operation]:
        data = entry.data
        if type(data) is list:
            yield from self._text(data[0], data[1])
        elif "patch" in data:
            if data["i"] in self._chunks:
                chunk = self._chunks[data["i"]] = {**self._chunks[data["i"]], **data["patch"]}
                yield MessageDelta(chunk)
        elif "chunk" in data:
            self._chunks[data["i"]] = data["chunk"]
            yield MessageDelta(data["chunk"], data.get("meta"), begin=True)
        elif data.get("root"):
            return
        elif data["message"].get("type") != "remove":
            yield MessageFull(data["message"], data.get("meta"))
        elif entry.ns or not self._root_has_messages:
            yield MessageRemove(str(data["message"].get("id")))

    def _text(self, index: int, text: str) -> Iterator[Operation]:
        if (chunk := self._chunks.get(index)) is None:
            return
        if isinstance(chunk.get("id"), str) and is_text(chunk):
            yield MessageText(chunk["id"], text)
        else:
            yield MessageDelta({**chunk, "content": text})

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
        self._chunks = {}
        self._checkpoint = {}

    def _ended(self, entry: Entry) -> Operation:
        status = entry.data["status"]
        pending = interrupts_of(entry.data.get("interrupts") or [], ()) if status == "success" else None
        if entry.run_id != self._run_id:  # it ended before it started, while another run had the thread
            return RunEnded(status, pending)
        self._chunks = {}
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
        self._chunks = dict(data["chunks"])
        self._checkpoint = data["checkpoint"]
        self._root_has_messages = data["rootHasMessages"]


def _answered(data: dict[str, Any]) -> Operation:
    answers = data.get("answers")
    if answers is None:
        return InterruptAnswered(None, data.get("value"), data.get("by"), data.get("via"))
    named = tuple((answer["id"], answer.get("response")) for answer in answers)
    return InterruptAnswered(named, None, data.get("by"), data.get("via"))
