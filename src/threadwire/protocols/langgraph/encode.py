"""One run's log as the classic LangGraph run stream.

Server-sent events named after the stream mode, in the format the official SDKs parse. The encoder is stateful only
because the log stores changes: it keeps the last chunk of each message and the folded values of each namespace that has
not ended, so it must be fed a run from its first entry (spec/log.md, 4.5). Its output depends on nothing else.
"""

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

from threadwire.core.entries import Entry, Json, Kind, Namespace
from threadwire.core.json import dumps, native
from threadwire.core.namespaces import ByNamespace
from threadwire.core.state_fold import StateFold

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
        self._states = ByNamespace(StateFold)
        self._messages: _TupleMessages | _AccumulatedMessages | None = None
        if "messages-tuple" in self._modes:  # takes precedence over `messages`, as on the official server
            self._messages = _TupleMessages()
        elif "messages" in self._modes:
            self._messages = _AccumulatedMessages()

    def feed(self, entry: Entry) -> bytes:
        kind = entry.kind
        if kind == Kind.MESSAGES:
            if self._messages is None or (entry.ns and not self._subgraphs):
                return b""
            if self._subgraphs and isinstance(entry.data, dict) and entry.data.get("root"):
                return b""
            return self._messages.feed(entry)
        if kind == Kind.STATE:
            return self._values(entry)
        if kind in _UNCHANGED:
            return self._unchanged(entry)
        if kind == Kind.TASK and entry.data.get("ended"):
            self._states.task_ended(entry.ns, entry.data["name"], entry.data["id"])
            return b""
        if kind == Kind.RUN_STARTED:
            return self._started(entry)
        if kind == Kind.RUN_ENDED and entry.data["status"] in ("error", "timeout"):
            return frame(b"error", dumps(entry.data["error"]), entry)
        return b""

    def _started(self, entry: Entry) -> bytes:
        self._states.clear()
        if self._messages is not None:
            self._messages.forget()
        return frame(b"metadata", dumps({"run_id": entry.run_id, "attempt": entry.attempt}), entry)

    def _values(self, entry: Entry) -> bytes:
        if "values" not in self._modes or (entry.ns and not self._subgraphs):
            return b""
        state = self._states.at(entry.ns)
        state.apply(entry.data)
        return frame(_name(b"values", entry.ns), state.dumps(), entry)

    def _unchanged(self, entry: Entry) -> bytes:
        if entry.kind not in self._modes or "value" not in entry.data:
            return b""
        if entry.ns and not self._subgraphs:
            return b""
        return frame(_name(entry.kind.encode(), entry.ns), dumps(entry.data["value"]), entry)


_UNCHANGED = frozenset({Kind.CUSTOM, Kind.UPDATES, Kind.TASKS, Kind.CHECKPOINTS, Kind.DEBUG, Kind.EVENTS})


class _Chunk:
    """A streamed message as of its last chunk. Its frame is split around the text, so that a token needs no
    serialisation."""

    __slots__ = ("after", "before", "fields", "meta")

    def __init__(self, fields: dict[str, Json], meta: Json, name: bytes) -> None:
        self.fields = fields
        self.meta = dumps(meta)
        self._split(name)

    def patch(self, patch: dict[str, Json], name: bytes) -> None:
        self.fields = {**self.fields, **patch}
        self._split(name)

    def _split(self, name: bytes) -> None:
        rest = {key: value for key, value in self.fields.items() if key != "content"}
        self.before = b"event: " + name + b'\r\ndata: [{"content":'
        self.after = b"," + dumps(rest)[1:] + b"," + self.meta + b"]\r\nid: "

    def frame(self, text: Json, seq: int) -> bytes:
        return self.before + dumps(text) + self.after + b"%d\r\n\r\n" % seq


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

    def feed(self, entry: Entry) -> bytes:
        data = entry.data
        if type(data) is list:
            return self._chunks[data[0]].frame(data[1], entry.seq)
        name = _name(b"messages", entry.ns)
        if "patch" in data:
            chunk = self._chunks[data["i"]]
            chunk.patch(data["patch"], name)
            return chunk.frame(chunk.fields["content"], entry.seq)
        if "chunk" in data:
            chunk = self._chunks[data["i"]] = _Chunk(data["chunk"], data["meta"], name)
            started = chunk.frame(chunk.fields["content"], entry.seq)
        else:
            started = frame(name, dumps([data["message"], data["meta"]]), entry)
        return self._removed(data, name) + started

    def _removed(self, data: dict[str, Any], name: bytes) -> bytes:
        message_id = data["chunk" if "chunk" in data else "message"].get("id")
        if message_id is None:
            return b""
        self._started.add(message_id)
        if message_id not in self._abandoned:
            return b""
        self._abandoned.remove(message_id)
        return frame(name, dumps([RemoveMessage(id=message_id), data["meta"]]))


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

    def feed(self, entry: Entry) -> bytes:
        data = entry.data
        if type(data) is list:
            partial = self._partial[data[0]]
            partial.text(data[1])
        elif "patch" in data:
            partial = self._partial[data["i"]]
            partial.patch(data["patch"])
        elif "chunk" in data:
            partial = self._partial[data["i"]] = _PartialMessage(data["chunk"])
        else:
            complete = frame(b"messages/complete", dumps([data["message"]]), entry)
            return self._describe(entry, data["message"]) + complete
        return self._describe(entry, partial.chunk) + frame(b"messages/partial", partial.dumps(), entry)

    def _describe(self, entry: Entry, message: dict[str, Json]) -> bytes:
        """The message's metadata, the first time it is seen."""
        message_id = str(message.get("id"))
        if message_id in self._described:
            return b""
        self._described.add(message_id)
        return frame(b"messages/metadata", dumps({message_id: {"metadata": entry.data["meta"]}}))


def _name(mode: bytes, ns: Namespace) -> bytes:
    return mode if not ns else mode + b"|" + "|".join(ns).encode()


def frame(name: bytes, data: bytes, entry: Entry | None = None) -> bytes:
    """One event. Only the last frame of an entry is passed the entry, and so has the id (spec/log.md, 4.2)."""
    if entry is None:
        return b"event: " + name + b"\r\ndata: " + data + b"\r\n\r\n"
    return b"event: " + name + b"\r\ndata: " + data + b"\r\nid: %d\r\n\r\n" % entry.seq
