"""Streamed messages as events of the thread wire: a message is a sequence of content blocks, each of which starts,
grows and finishes.
"""

from collections.abc import Callable
from typing import Any

from threadwire.core.entries import Entry, Json, Namespace
from threadwire.core.json import loads_exactly
from threadwire.core.message_content import message_type, text_of
from threadwire.core.message_fold import Change, MessageFold
from threadwire.core.message_parts import MessageParts, MessageWithParts
from threadwire.core.namespaces import is_below_task
from threadwire.core.open_parts import OpenParts, Part, PartChange, PartDelta, PartEnded, PartStarted
from threadwire.protocols.langgraph.thread_wire.values import content_blocks

MessageEvent = tuple[Namespace, dict[str, Json]]

_ROLES = frozenset({"ai", "human", "system"})
"""The messages that are streamed. The results of tools are in the channel `tools` and in the state."""
_MEDIA = frozenset({"image", "audio", "video", "file"})
_DELTA = b',"data":{"event":"content-block-delta","index":%d,"delta":{"type":"text-delta","text":'


class _Block:
    __slots__ = ("index", "message", "pieces")

    def __init__(self, message: "WireMessage", index: int) -> None:
        self.message = message
        self.index = index
        self.pieces: list[str] = []


class WireMessage(MessageWithParts):
    """A streamed message, and the state of its events."""

    __slots__ = ("block_count", "finished", "metadata", "others", "prefix", "text", "usage")

    def __init__(self, message_id: str, fields: dict[str, Json], meta: Json, ns: Namespace, change: Change) -> None:
        super().__init__(message_id, fields, meta or {}, ns, change)
        self.block_count = 0
        self.finished = False
        self.usage: dict[str, Any] = {}
        self.metadata: dict[str, Json] = {}
        self.others: list[WireMessage] = []
        """All open messages of the namespace, including this one."""
        self.text: _Block | None = None
        """The block of `plain_text`."""
        self.prefix = b""
        """The part of an event that adds text to that block, between its time and the text."""

    def add(self, text: str) -> bool:
        """Add the text of a chunk that differs from the previous chunk only in its text, as nearly every entry of a run
        does. Returns False if the chunk may do more than add text to the block, and has to be inspected."""
        block, part = self.text, self.plain_text
        if block is None or part is None or not part.is_open or len(self.others) != 1:
            return False
        block.pieces.append(text)
        return True


class MessageEvents:
    """The messages of an attempt."""

    def __init__(self, opened: OpenParts) -> None:
        self._fold = MessageFold(WireMessage)
        self._parts: MessageParts[WireMessage] = MessageParts(opened)
        self._blocks: dict[Part, _Block] = {}
        self._open: dict[Namespace, list[WireMessage]] = {}
        self.streamed = self._fold.streamed

    def feed(self, entry: Entry) -> list[MessageEvent]:
        message = self._fold.feed(entry)
        if message is None or message.finished or message_type(message.fields) not in _ROLES:
            return []
        events = self._start(message, entry) if message.change in ("first", "whole") else []
        self._note_totals(message)
        events += self._changes(message)
        if message.change == "whole" or message.fields.get("chunk_position") == "last":
            return events + self._finish(message)
        part = message.plain_text
        message.text = None if part is None else self._blocks.get(part)
        if message.text is not None:
            message.prefix = _DELTA % message.text.index
        return events

    def part_changes(self, changes: list[PartChange]) -> list[MessageEvent]:
        """The events of parts that were closed from outside, for example because their task has ended."""
        return [event for change in changes for event in self._part_event(None, change)]

    def open_ids(self) -> dict[Namespace, list[str]]:
        """The ids of the messages that are open, by namespace."""
        return {ns: [message.id for message in opened] for ns, opened in self._open.items() if opened}

    def finish_task(self, ns: Namespace, task_id: str) -> list[MessageEvent]:
        """Finish the messages that a task, or a subgraph that it called, has left open."""
        return self._finish_where(lambda message: message.task == task_id or is_below_task(message.ns, ns, task_id))

    def finish_all(self, error: str | None = None) -> list[MessageEvent]:
        """Finish all messages, with an error if the run has failed."""
        return self._finish_where(lambda message: True, error)

    def _finish_where(self, matches: Callable[[WireMessage], bool], error: str | None = None) -> list[MessageEvent]:
        found = [message for opened in self._open.values() for message in opened if matches(message)]
        return [event for message in found for event in self._finish(message, error)]

    # -- one message ---------------------------------------------------------------------------------------------

    def _start(self, message: WireMessage, entry: Entry) -> list[MessageEvent]:
        message.others = self._open.setdefault(message.ns, [])
        message.others.append(message)
        data: dict[str, Json] = {
            "event": "message-start",
            "role": message_type(message.fields),
            "id": message.id,
            "metadata": _metadata(message, entry),
        }
        return [(message.ns, data)]

    def _finish(self, message: WireMessage, error: str | None = None) -> list[MessageEvent]:
        data: dict[str, Json]
        if error is not None:
            data = {"event": "error", **self._routing(message), "message": error}
        else:
            data = {"event": "message-finish", **self._routing(message)}
            data |= {"usage": message.usage} if message.usage else {}
            data |= {"metadata": message.metadata} if message.metadata else {}
        message.finished = True
        message.others.remove(message)
        return [(message.ns, data)]

    def _note_totals(self, message: WireMessage) -> None:
        if message.change == "text":
            return
        _add_usage(message.usage, message.changed.get("usage_metadata") or {})
        message.metadata |= message.changed.get("response_metadata") or {}

    @staticmethod
    def _routing(message: WireMessage) -> dict[str, Json]:
        """The fields that distinguish the events of concurrent messages. The Python SDK needs `id`, and the JavaScript
        SDKs need `run_id`, which they compare with the `id` of the start event."""
        return {"id": message.id, "run_id": message.id} if len(message.others) > 1 else {}

    # -- blocks --------------------------------------------------------------------------------------------------

    def _changes(self, message: WireMessage) -> list[MessageEvent]:
        if message_type(message.fields) != "ai":
            text = text_of(message.content)
            return self._whole_block(message, {"type": "text", "text": text}) if text else []
        events = [event for change in self._parts.feed(message) for event in self._part_event(message, change)]
        for block in _media_blocks(message):
            events += self._whole_block(message, block)
        return events

    def _part_event(self, message: WireMessage | None, change: PartChange) -> list[MessageEvent]:
        part = change.part
        if isinstance(change, PartStarted):
            if message is None or part.kind in ("step", "subgraph"):
                return []
            block = self._blocks[part] = self._new_block(message)
            return [self._block_event(block, "content-block-start", content=_empty(part, block.index))]
        if (known := self._blocks.get(part)) is None:
            return []
        if isinstance(change, PartDelta):
            known.pieces.append(change.text)
            return [self._block_event(known, "content-block-delta", **_delta(part, change.text))]
        assert isinstance(change, PartEnded)
        del self._blocks[part]
        return [self._block_event(known, "content-block-finish", content=_complete(part, "".join(known.pieces)))]

    def _whole_block(self, message: WireMessage, content: dict[str, Json]) -> list[MessageEvent]:
        block = self._new_block(message)
        empty = {**content, "text": ""} if content["type"] == "text" else {"type": content["type"]}
        return [
            self._block_event(block, "content-block-start", content=empty),
            self._block_event(block, "content-block-finish", content=content),
        ]

    @staticmethod
    def _new_block(message: WireMessage) -> _Block:
        block = _Block(message, message.block_count)
        message.block_count += 1
        return block

    def _block_event(self, block: _Block, name: str, **data: Json) -> MessageEvent:
        return block.message.ns, {"event": name, **self._routing(block.message), "index": block.index, **data}


def _metadata(message: WireMessage, entry: Entry) -> dict[str, Json]:
    meta: dict[str, Json] = message.meta
    known = {
        "provider": meta.get("ls_provider"),
        "model": meta.get("ls_model_name"),
        "model_type": meta.get("ls_model_type"),
        "run_id": entry.run_id,
        "langgraph_node": meta.get("langgraph_node"),
    }
    return {name: value for name, value in known.items() if value is not None}


def _empty(part: Part, index: int) -> dict[str, Json]:
    if part.kind == "call":
        return {"type": "tool_call_chunk", "id": part.id, "name": part.name, "args": "", "index": index}
    return {"type": part.kind, part.kind: ""}


def _delta(part: Part, text: str) -> dict[str, Json]:
    if part.kind == "call":
        # The JavaScript SDKs do not know `tool-call-delta`; they read the chunk in `content`.
        chunk = {"type": "tool_call_chunk", "args": text}
        return {"delta": {"type": "tool-call-delta", "args": text}, "content": chunk}
    return {"delta": {"type": f"{part.kind}-delta", part.kind: text}}


def _complete(part: Part, text: str) -> dict[str, Json]:
    if part.kind != "call":
        return {"type": part.kind, part.kind: text}
    call = {"id": part.id, "name": part.name}
    try:
        arguments = loads_exactly(text or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return {"type": "invalid_tool_call", **call, "args": text, "error": "The arguments are not a JSON object."}
    return {"type": "tool_call", **call, "args": arguments}


def _media_blocks(message: WireMessage) -> list[dict[str, Json]]:
    """The images, audio, videos and files of a chunk."""
    if message.change == "text" or not isinstance(message.content, list):
        return []
    return [block for block in content_blocks(message.chunk()) if block.get("type") in _MEDIA]


def _add_usage(total: dict[str, Any], usage: dict[str, Any]) -> None:
    for name, value in usage.items():
        if isinstance(value, dict):
            _add_usage(total.setdefault(name, {}), value)
        elif isinstance(value, int):
            total[name] = total.get(name, 0) + value
