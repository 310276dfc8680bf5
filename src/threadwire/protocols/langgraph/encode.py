"""One run's log as the classic LangGraph run stream.

Messages are named after the stream mode, and have the format that the official SDKs parse. The encoder is stateful only
because the log stores changes: it keeps the last chunk of each message and the folded values of each namespace that has
not ended, so it must be fed a run from its first entry (spec/log.md, 4.5). Its output depends on nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import RemoveMessage

from threadwire.core.accumulated_message import AccumulatedMessage
from threadwire.core.encoder import Message
from threadwire.core.entries import MESSAGES, Entry, Json, Kind, Namespace
from threadwire.core.json import dumps
from threadwire.core.message_fold import Change, MessageFold, StreamedMessage
from threadwire.core.namespaces import ByNamespace
from threadwire.core.state_fold import JsonState

DEFAULT_MODES = ("values",)
MODES = frozenset(
    {"values", "updates", "messages", "messages-tuple", "custom", "events", "debug", "tasks", "checkpoints"}
)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a client wants to receive of a run. Streams with equal options share one encoder."""

    modes: frozenset[str]
    subgraphs: bool = False


class RunStreamEncoder:
    def __init__(self, options: StreamOptions) -> None:
        self._modes = options.modes
        self._subgraphs = options.subgraphs
        self._states = ByNamespace(JsonState)
        self._messages: _TupleMessages | _AccumulatedMessages | None = None
        if "messages-tuple" in self._modes:  # takes precedence over `messages`, as on the stock server
            self._messages = _TupleMessages(options.subgraphs)
        elif "messages" in self._modes:
            self._messages = _AccumulatedMessages(options.subgraphs)

    def feed(self, entry: Entry) -> Sequence[Message]:
        kind, data = entry.kind, entry.data
        if kind == MESSAGES:
            messages = self._messages
            if messages is None or (entry.ns and not self._subgraphs):
                return ()
            return messages.feed(entry)
        if kind == Kind.STATE:
            return self._values(entry)
        if kind in _UNCHANGED:
            return self._unchanged(entry)
        if kind == Kind.TASK and data.get("ended"):
            self._states.task_ended(entry.ns, data["name"], data["id"])
            return ()
        if kind == Kind.RUN_STARTED:
            return self._started(entry)
        if kind == Kind.RUN_ENDED and data["status"] in ("error", "timeout"):
            return [(b"error", dumps(data["error"]))]
        return ()

    def _started(self, entry: Entry) -> Sequence[Message]:
        self._states.clear()
        if self._messages is not None:
            self._messages.forget()
        return [(b"metadata", dumps({"run_id": entry.run_id, "attempt": entry.attempt}))]

    def _values(self, entry: Entry) -> Sequence[Message]:
        if "values" not in self._modes or (entry.ns and not self._subgraphs):
            return ()
        state = self._states.at(entry.ns)
        state.apply(entry.data)
        return [(_name(b"values", entry.ns), state.dumps())]

    def _unchanged(self, entry: Entry) -> Sequence[Message]:
        if entry.kind not in self._modes or "value" not in entry.data:
            return ()
        if entry.ns and not self._subgraphs:
            return ()
        return [(_name(entry.kind.encode(), entry.ns), dumps(entry.data["value"]))]


_UNCHANGED = frozenset({Kind.CUSTOM, Kind.UPDATES, Kind.TASKS, Kind.CHECKPOINTS, Kind.DEBUG, Kind.EVENTS})

_CONTENT = b'[{"content":'
"""The start of every chunk's JSON, before the text."""


class _Chunk(StreamedMessage):
    """A streamed message as of its last chunk. What follows its text is serialized once, not with every token."""

    __slots__ = ("after", "meta_json", "name")

    def __init__(self, message_id: str, fields: dict[str, Json], meta: Json, ns: Namespace, change: Change) -> None:
        super().__init__(message_id, fields, meta, ns, change)
        self.name = _name(b"messages", ns)
        self.meta_json = dumps(meta)
        self.after = b""

    def serialize_rest(self) -> None:
        rest = {key: value for key, value in self.fields.items() if key != "content"}
        self.after = b"," + dumps(rest)[1:] + b"," + self.meta_json + b"]"


class _TupleMessages:
    """`messages-tuple`: each chunk unchanged, with its metadata.

    Clients concatenate all chunks with the same message id. So a message that an earlier attempt started is removed
    before it starts again with the same id. Otherwise its text would be shown twice.
    """

    def __init__(self, subgraphs: bool) -> None:
        self._fold = MessageFold(_Chunk, subgraphs=subgraphs)
        self._streamed = self._fold.streamed
        self._started: set[str] = set()
        self._abandoned: set[str] = set()

    def forget(self) -> None:
        self._fold.clear()
        self._abandoned |= self._started
        self._started.clear()

    def feed(self, entry: Entry) -> Sequence[Message]:
        data = entry.data
        if type(data) is list:  # nearly every entry of a run
            index, text = data
            chunk = self._streamed[index]
            return [(chunk.name, _CONTENT + dumps(text) + chunk.after)]
        message = self._fold.feed(entry)
        return () if message is None else self._messages(message)

    def _messages(self, chunk: _Chunk) -> Sequence[Message]:
        if chunk.change == "whole":
            return [*self._removed(chunk), (chunk.name, dumps([chunk.fields, chunk.meta]))]
        chunk.serialize_rest()
        shown = chunk.name, _CONTENT + dumps(chunk.content) + chunk.after
        return [*self._removed(chunk), shown] if chunk.change == "first" else [shown]

    def _removed(self, chunk: _Chunk) -> Sequence[Message]:
        message_id = chunk.fields.get("id")
        if message_id is None:
            return ()
        self._started.add(message_id)
        if message_id not in self._abandoned:
            return ()
        self._abandoned.remove(message_id)
        return [(chunk.name, dumps([RemoveMessage(id=message_id), chunk.meta]))]


class _Partial(StreamedMessage):
    """A streamed message and the sum of its chunks."""

    __slots__ = ("so_far",)

    def __init__(self, message_id: str, fields: dict[str, Json], meta: Json, ns: Namespace, change: Change) -> None:
        super().__init__(message_id, fields, meta, ns, change)
        self.so_far = AccumulatedMessage(fields) if change == "first" else None


class _AccumulatedMessages:
    """`messages`: the whole message so far with every chunk; its metadata once."""

    def __init__(self, subgraphs: bool) -> None:
        self._fold = MessageFold(_Partial, subgraphs=subgraphs)
        self._described: set[str] = set()

    def forget(self) -> None:
        self._fold.clear()

    def feed(self, entry: Entry) -> Sequence[Message]:
        message = self._fold.feed(entry)
        if message is None:
            return ()
        if message.so_far is None:
            return [*self._describe(message), (b"messages/complete", dumps([message.fields]))]
        if message.change != "first":
            message.so_far.add(message)
        return [*self._describe(message), (b"messages/partial", dumps([message.so_far.value]))]

    def _describe(self, message: _Partial) -> Sequence[Message]:
        """The message's metadata, the first time it is seen."""
        message_id = str(message.fields.get("id"))
        if message_id in self._described:
            return ()
        self._described.add(message_id)
        return [(b"messages/metadata", dumps({message_id: {"metadata": message.meta}}))]


def _name(mode: bytes, ns: Namespace) -> bytes:
    return mode if not ns else mode + b"|" + _on_one_line("|".join(ns)).encode()


def _on_one_line(text: str) -> str:
    """The name of a node may contain line breaks; the name of a message must not."""
    return text.replace("\r", " ").replace("\n", " ")
