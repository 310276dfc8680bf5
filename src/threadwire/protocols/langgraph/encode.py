"""One run's log as the classic LangGraph run stream.

Server-sent events named after the stream mode, in the shapes the official SDKs parse. The encoder is stateful only
because the log stores changes: it keeps the last chunk of each message and the folded values of each namespace, and so
must be fed a run from its first entry (spec/log.md, 4.5). What it says depends on nothing else.
"""

from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessageChunk, message_chunk_to_message

from threadwire.core.entries import Entry, Json, Kind, Namespace
from threadwire.core.fold import StateFold
from threadwire.core.json import dumps

DEFAULT_MODES = ("values",)
MODES = frozenset(
    {"values", "updates", "messages", "messages-tuple", "custom", "events", "debug", "tasks", "checkpoints"}
)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a client wants to see of a run. Equal options share one encoder."""

    modes: frozenset[str]
    subgraphs: bool = False


class RunStreamEncoder:
    def __init__(self, options: StreamOptions) -> None:
        self._modes = options.modes
        self._subgraphs = options.subgraphs
        self._states: dict[Namespace, StateFold] = {}
        self._messages: _TupleMessages | _AccumulatedMessages | None = None
        if "messages-tuple" in self._modes:  # the tuples win when both are asked for, as they do on the official server
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
        if kind in _PASSED_ON:
            return self._passed_on(entry)
        if kind == Kind.RUN_STARTED:
            return self._started(entry)
        if kind == Kind.RUN_ENDED and entry.data["status"] in ("error", "timeout"):
            return _frame(b"error", dumps(entry.data["error"]), entry)
        return b""

    def _started(self, entry: Entry) -> bytes:
        self._states.clear()
        if self._messages is not None:
            self._messages.forget()
        return _frame(b"metadata", dumps({"run_id": entry.run_id, "attempt": entry.attempt}), entry)

    def _values(self, entry: Entry) -> bytes:
        if "values" not in self._modes or (entry.ns and not self._subgraphs):
            return b""
        state = self._states.setdefault(entry.ns, StateFold())
        state.apply(entry.data)
        return _frame(_name(b"values", entry.ns), state.dumps(), entry)

    def _passed_on(self, entry: Entry) -> bytes:
        if entry.kind not in self._modes or "value" not in entry.data:
            return b""
        if entry.ns and not self._subgraphs:
            return b""
        return _frame(_name(entry.kind.encode(), entry.ns), dumps(entry.data["value"]), entry)


_PASSED_ON = frozenset({Kind.CUSTOM, Kind.UPDATES, Kind.TASKS, Kind.CHECKPOINTS, Kind.DEBUG, Kind.EVENTS})


class _Chunk:
    """A streamed message as of its last chunk, with its frame cut around the text so that a token costs no serialisation."""

    __slots__ = ("after", "before", "fields", "meta")

    def __init__(self, fields: dict[str, Json], meta: Json, name: bytes) -> None:
        self.fields = fields
        self.meta = dumps(meta)
        self._cut(name)

    def patch(self, patch: dict[str, Json], name: bytes) -> None:
        self.fields = {**self.fields, **patch}
        self._cut(name)

    def _cut(self, name: bytes) -> None:
        rest = {key: value for key, value in self.fields.items() if key != "content"}
        self.before = b"event: " + name + b'\r\ndata: [{"content":'
        self.after = b"," + dumps(rest)[1:] + b"," + self.meta + b"]\r\nid: "

    def frame(self, text: Json, seq: int) -> bytes:
        return self.before + dumps(text) + self.after + b"%d\r\n\r\n" % seq


class _TupleMessages:
    """`messages-tuple`: each chunk as it came, with its metadata."""

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}

    def forget(self) -> None:
        self._chunks.clear()

    def feed(self, entry: Entry) -> bytes:
        data = entry.data
        if type(data) is list:
            return self._chunks[data[0]].frame(data[1], entry.seq)
        name = _name(b"messages", entry.ns)
        if "patch" in data:
            chunk = self._chunks[data["i"]]
            chunk.patch(data["patch"], name)
        elif "chunk" in data:
            chunk = self._chunks[data["i"]] = _Chunk(data["chunk"], data["meta"], name)
        else:
            return _frame(name, dumps([data["message"], data["meta"]]), entry)
        return chunk.frame(chunk.fields["content"], entry.seq)


class _AccumulatedMessages:
    """`messages`: the message so far, again and again; its metadata once."""

    def __init__(self) -> None:
        self._chunks: dict[int, dict[str, Json]] = {}
        self._so_far: dict[int, AIMessageChunk] = {}
        self._described: set[str] = set()

    def forget(self) -> None:
        self._chunks.clear()
        self._so_far.clear()

    def feed(self, entry: Entry) -> bytes:
        data = entry.data
        if type(data) is list:
            return self._grown(entry, data[0], {**self._chunks[data[0]], "content": data[1]})
        if "patch" in data:
            return self._grown(entry, data["i"], {**self._chunks[data["i"]], **data["patch"]})
        if "chunk" in data:
            return self._described_once(entry, data["chunk"]) + self._grown(entry, data["i"], data["chunk"])
        complete = _frame(b"messages/complete", dumps([data["message"]]), entry)
        return self._described_once(entry, data["message"]) + complete

    def _described_once(self, entry: Entry, message: dict[str, Json]) -> bytes:
        message_id = str(message.get("id"))
        if message_id in self._described:
            return b""
        self._described.add(message_id)
        return _frame(b"messages/metadata", dumps({message_id: {"metadata": entry.data["meta"]}}))

    def _grown(self, entry: Entry, index: int, chunk: dict[str, Json]) -> bytes:
        self._chunks[index] = chunk
        if chunk.get("type") != "AIMessageChunk":  # only models' answers grow
            return _frame(b"messages/complete", dumps([chunk]), entry)
        message = AIMessageChunk(**chunk)
        if index in self._so_far:
            message = self._so_far[index] + message
        self._so_far[index] = message
        return _frame(b"messages/partial", dumps([message_chunk_to_message(message)]), entry)


def _name(mode: bytes, ns: Namespace) -> bytes:
    return mode if not ns else mode + b"|" + "|".join(ns).encode()


def _frame(name: bytes, data: bytes, entry: Entry | None = None) -> bytes:
    """One event. Only the last frame of an entry is given the entry, and so the id (spec 4.2)."""
    if entry is None:
        return b"event: " + name + b"\r\ndata: " + data + b"\r\n\r\n"
    return b"event: " + name + b"\r\ndata: " + data + b"\r\nid: %d\r\n\r\n" % entry.seq


def heartbeat() -> bytes:
    return b": heartbeat\r\n\r\n"


def decode_modes(value: Any) -> frozenset[str]:
    """The stream modes a request names: one, or several."""
    modes = [value] if isinstance(value, str) else list(value or DEFAULT_MODES)
    return frozenset(modes)
