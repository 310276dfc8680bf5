"""One run's log as the classic LangGraph run stream.

Messages are named after the stream mode, and have the format that the official SDKs parse. The encoder is stateful only
because the log stores changes: it keeps the last chunk of each message and the folded values of each namespace that has
not ended, so it must be fed a run from its first entry (spec/log.md, 4.5). Its output depends on nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import (
    AIMessageChunk,
    BaseMessageChunk,
    ChatMessageChunk,
    FunctionMessageChunk,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessageChunk,
    ToolMessageChunk,
    message_chunk_to_message,
)

from threadwire.core.encoding import Message
from threadwire.core.entries import MESSAGES, Entry, Json, Kind, Namespace
from threadwire.core.json import dumps, native
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
        if "messages-tuple" in self._modes:  # takes precedence over `messages`, as on the official server
            self._messages = _TupleMessages()
        elif "messages" in self._modes:
            self._messages = _AccumulatedMessages()

    def feed(self, entry: Entry) -> Sequence[Message]:
        kind, data = entry.kind, entry.data
        if kind == MESSAGES:
            messages = self._messages
            if messages is None or (entry.ns and not self._subgraphs):
                return ()
            if type(data) is list:
                return messages.token(data)
            if self._subgraphs and data.get("root"):
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


class _Chunk:
    """A streamed message as of its last chunk. What follows its text is serialised once, not with every token."""

    __slots__ = ("after", "fields", "meta", "name")

    def __init__(self, fields: dict[str, Json], meta: Json, name: bytes) -> None:
        self.fields = fields
        self.meta = dumps(meta)
        self.name = name
        self._serialise_rest()

    def patch(self, patch: dict[str, Json], name: bytes) -> None:
        self.fields = {**self.fields, **patch}
        self.name = name
        self._serialise_rest()

    def _serialise_rest(self) -> None:
        rest = {key: value for key, value in self.fields.items() if key != "content"}
        self.after = b"," + dumps(rest)[1:] + b"," + self.meta + b"]"

    def message(self, text: Json) -> Message:
        return self.name, _CONTENT + dumps(text) + self.after


class _TupleMessages:
    """`messages-tuple`: each chunk unchanged, with its metadata.

    Clients concatenate all chunks with the same message id. So a message that an earlier attempt started is removed
    before it starts again with the same id. Otherwise its text would be shown twice.
    """

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}
        self._started: set[str] = set()
        self._abandoned: set[str] = set()

    def forget(self) -> None:
        self._chunks.clear()
        self._abandoned |= self._started
        self._started.clear()

    def token(self, data: list[Any]) -> Sequence[Message]:
        index, text = data
        chunk = self._chunks[index]
        return [(chunk.name, _CONTENT + dumps(text) + chunk.after)]

    def feed(self, entry: Entry) -> Sequence[Message]:
        data = entry.data
        name = _name(b"messages", entry.ns)
        if "patch" in data:
            chunk = self._chunks[data["i"]]
            chunk.patch(data["patch"], name)
            return [chunk.message(chunk.fields["content"])]
        if "chunk" in data:
            chunk = self._chunks[data["i"]] = _Chunk(data["chunk"], data["meta"], name)
            started = chunk.message(chunk.fields["content"])
        else:
            started = (name, dumps([data["message"], data["meta"]]))
        return [*self._removed(data, name), started]

    def _removed(self, data: dict[str, Any], name: bytes) -> Sequence[Message]:
        message_id = data["chunk" if "chunk" in data else "message"].get("id")
        if message_id is None:
            return ()
        self._started.add(message_id)
        if message_id not in self._abandoned:
            return ()
        self._abandoned.remove(message_id)
        return [(name, dumps([RemoveMessage(id=message_id), data["meta"]]))]


class _PartialMessage:
    """A streamed message so far. Text is appended here; LangChain merges everything else in a chunk."""

    __slots__ = ("_merged", "_shown", "_text", "chunk")

    def __init__(self, chunk: dict[str, Json]) -> None:
        self.chunk = chunk
        self._merged = _chunk_of(chunk)
        self._show()

    def text(self, text: str) -> None:
        if isinstance(self._shown["content"], str) and not any(self.chunk.get(field) for field in _NOT_TEXT):
            self._text += text
            self._shown["content"] += text
        else:
            self.patch({"content": text})

    def patch(self, patch: dict[str, Json]) -> None:
        if self._text:
            self._merged = self._merged + _chunk_of({**self.chunk, "content": self._text})
        self.chunk = {**self.chunk, **patch}
        self._merged = self._merged + _chunk_of(self.chunk)
        self._show()

    def _show(self) -> None:
        self._text = ""
        self._shown = native(message_chunk_to_message(self._merged))

    def dumps(self) -> bytes:
        return dumps([self._shown])


_CHUNKS: dict[str, type[BaseMessageChunk]] = {
    kind.__name__: kind
    for kind in (
        AIMessageChunk,
        ChatMessageChunk,
        FunctionMessageChunk,
        HumanMessageChunk,
        SystemMessageChunk,
        ToolMessageChunk,
    )
}


def _chunk_of(fields: dict[str, Json]) -> Any:
    return _CHUNKS.get(str(fields.get("type")), AIMessageChunk)(**fields)


_NOT_TEXT = (
    "tool_call_chunks",
    "usage_metadata",
    "additional_kwargs",
    "response_metadata",
    "chunk_position",
)


class _AccumulatedMessages:
    """`messages`: the whole message so far with every chunk; its metadata once."""

    def __init__(self) -> None:
        self._partial: dict[int, _PartialMessage] = {}
        self._described: set[str] = set()

    def forget(self) -> None:
        self._partial.clear()

    def token(self, data: list[Any]) -> Sequence[Message]:
        partial = self._partial[data[0]]
        partial.text(data[1])
        return [(b"messages/partial", partial.dumps())]

    def feed(self, entry: Entry) -> Sequence[Message]:
        data = entry.data
        if "patch" in data:
            partial = self._partial[data["i"]]
            partial.patch(data["patch"])
        elif "chunk" in data:
            partial = self._partial[data["i"]] = _PartialMessage(data["chunk"])
        else:
            complete = (b"messages/complete", dumps([data["message"]]))
            return [*self._describe(entry, data["message"]), complete]
        return [*self._describe(entry, partial.chunk), (b"messages/partial", partial.dumps())]

    def _describe(self, entry: Entry, message: dict[str, Json]) -> Sequence[Message]:
        """The message's metadata, the first time it is seen."""
        message_id = str(message.get("id"))
        if message_id in self._described:
            return ()
        self._described.add(message_id)
        return [(b"messages/metadata", dumps({message_id: {"metadata": entry.data["meta"]}}))]


def _name(mode: bytes, ns: Namespace) -> bytes:
    return mode if not ns else mode + b"|" + _on_one_line("|".join(ns)).encode()


def _on_one_line(text: str) -> str:
    """The name of a node may contain line breaks; the name of a message must not."""
    return text.replace("\r", " ").replace("\n", " ")
