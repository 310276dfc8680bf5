"""Converts log entries to operations (spec/timeline.md, section 13)."""

from collections.abc import Iterable, Iterator
from typing import Any

from threadwire.core.entries import Entry, Json, Kind, Namespace
from threadwire.core.ids import Seq
from threadwire.core.interrupts import INTERRUPT
from threadwire.core.message_fold import Change as MessageChange
from threadwire.core.message_fold import MessageFold, StreamedMessage
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


class _Stream(StreamedMessage):
    """A streamed message. Its text is not stored: only the fields of the last chunk with more than text are needed."""

    __slots__ = ("_plain", "_plain_of")

    def __init__(self, message_id: str, fields: Message, meta: Json, ns: Namespace, change: MessageChange) -> None:
        super().__init__(message_id, fields, meta, ns, change)
        self._plain_of: Message | None = None
        self._plain: str | None = None

    def plain_id(self) -> str | None:
        """The id of the message, if its last chunk, and so any `text` change, adds nothing but text."""
        if self._plain_of is not self.fields:
            self._plain_of = self.fields
            message_id = self.fields.get("id")
            self._plain = message_id if isinstance(message_id, str) and is_text(self.fields) else None
        return self._plain

    def with_text(self, text: str) -> tuple[Operation, ...]:
        """The operation of a chunk that differs from the last one only in its text."""
        if (message_id := self.plain_id()) is not None:
            return (MessageText(message_id, text),)
        return (MessageDelta({**self.fields, "content": text}),)


class EntryNormalizer:
    """Converts entries to operations. An entry that continues a stream is ignored if the start of the stream is
    unknown."""

    def __init__(self, messages_key: str) -> None:
        self._messages_key = messages_key
        self._run_id: str | None = None
        self._messages = MessageFold(_Stream)
        self._checkpoint: dict[str, Json] = {}
        self._newest: str | None = None
        """The newest checkpoint."""
        self._base: str | None = None
        """The newest checkpoint before the run."""
        self._positions: dict[str, int] = {}
        """Where each checkpoint was written."""
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
                self._note_checkpoint(data.get("id"), entry.seq)
                if data.get("source") == "input":
                    yield RunInput()
            case Kind.STATE_RESET:
                yield from self._reset(data, entry.seq)
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

    def plain_id(self, number: int) -> str | None:
        """The id of the message to which an entry `[number, text]` adds nothing but text. None if the entry has to be
        fed."""
        stream = self._messages.streamed.get(number)
        return None if stream is None else stream.plain_id()

    def _message(self, entry: Entry) -> tuple[Operation, ...]:
        data, streamed = entry.data, self._messages.streamed
        if type(data) is list:
            stream = streamed.get(data[0])
            return () if stream is None else stream.with_text(data[1])
        if "patch" in data and data["i"] not in streamed:
            return ()
        stream = self._messages.feed(entry)
        if stream is None:
            return ()
        match stream.change:
            case "whole":
                return self._whole(stream, entry)
            case "first":
                return (MessageDelta(stream.fields, stream.meta, begin=True),)
            case _:
                return (MessageDelta(stream.fields),)

    def _whole(self, message: StreamedMessage, entry: Entry) -> tuple[Operation, ...]:
        if message.fields.get("type") != "remove":
            return (MessageFull(message.fields, message.meta),)
        removed = str(message.fields.get("id"))
        return (MessageRemove(removed),) if entry.ns or not self._root_has_messages else ()

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

    def _reset(self, data: dict[str, Any], seq: Seq) -> Iterator[Operation]:
        if data.get("cause") == "fork":
            yield self._forked(data["checkpoint_id"])
        elif (base := data.get("base_checkpoint_id")) not in (None, self._newest):
            yield self._forked(base)
        if "values" in data:
            values = data["values"]
            if isinstance(values, dict) and isinstance(values.get(self._messages_key), list):
                self._root_has_messages = True
            yield Values(values)
        if "interrupts" in data:
            yield InterruptsPending(interrupts_of(data["interrupts"], ()))
        if data.get("cause") != "fork":
            self._note_checkpoint(data.get("checkpoint_id"), seq)

    def _forked(self, base: str) -> Operation:
        """A checkpoint whose position is unknown is older than the log."""
        if base == self._newest:
            return RunForked()
        return RunForked(self._newest, self._positions.get(base, 0))

    def _note_checkpoint(self, checkpoint_id: str | None, seq: Seq) -> None:
        if checkpoint_id is not None:
            self._newest = checkpoint_id
            self._positions.setdefault(checkpoint_id, seq)  # a run that continues repeats the checkpoint it starts from

    # -- runs ---------------------------------------------------------------------------------------------------------

    def _forget(self, entry: Entry) -> None:
        self._messages.clear()
        self._checkpoint = {}
        self._newest = entry.data.get("checkpoint_id", self._newest)
        if entry.run_id != self._run_id:  # a later attempt may continue from a checkpoint of the run
            self._run_id, self._base = entry.run_id, self._newest

    def _ended(self, entry: Entry) -> Operation:
        status, unanswered = entry.data["status"], tuple(entry.data.get("unanswered", ()))
        pending = interrupts_of(entry.data.get("interrupts") or [], ()) if status == "success" else None
        if entry.run_id != self._run_id:  # it ended before it started, while another run held the thread
            return RunEnded(status, pending)
        self._messages.clear()
        if status == "rolled_back":
            self._newest = self._base
        following = tuple(self._checkpoint.get("next") or ())
        return RunEnded(status, pending, following, self._checkpoint.get("id"), unanswered)

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Json]:
        return {
            "runId": self._run_id,
            "chunks": [[index, stream.fields] for index, stream in self._messages.streamed.items()],
            "checkpoint": self._checkpoint,
            "rootHasMessages": self._root_has_messages,
            "newest": self._newest,
            "base": self._base,
            "positions": self._positions,
        }

    def restore(self, data: dict[str, Any]) -> None:
        self._run_id = data["runId"]
        for index, chunk in data["chunks"]:
            self._messages.streamed[index] = _Stream(str(chunk.get("id")), chunk, None, (), "first")
        self._checkpoint = data["checkpoint"]
        self._root_has_messages = data["rootHasMessages"]
        self._newest, self._positions = data["newest"], dict(data["positions"])
        self._base = data["base"]


def _answered(data: dict[str, Any]) -> Operation:
    answers = data.get("answers")
    if answers is None:
        return InterruptAnswered(None, data.get("value"), data.get("by"), data.get("via"))
    named = tuple((answer["id"], answer.get("response")) for answer in answers)
    return InterruptAnswered(named, None, data.get("by"), data.get("via"))
