"""Chunks of a streamed message, merged as LangChain merges them, on plain dictionaries (spec/timeline.md, 4.13).

`merge_chunk` equals `AIMessageChunk.__add__` of langchain-core, with two differences. It never raises: if the values
under one key have different types, the later value wins (4.13a). And it keeps fields that LangChain drops, such as
`name`. Arguments are never changed; the result may share parts with them.
"""

import json
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.timeline.partial_json import parse_partial_json

Message = dict[str, Any]

_TYPES = {
    "AIMessageChunk": "ai",
    "ChatMessageChunk": "chat",
    "FunctionMessageChunk": "function",
    "HumanMessageChunk": "human",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
}
_NOT_TEXT = (
    "additional_kwargs",
    "artifact",
    "chunk_position",
    "invalid_tool_calls",
    "response_metadata",
    "tool_call_chunks",
    "tool_calls",
    "usage_metadata",
)


def is_chunk(message: Message) -> bool:
    return str(message.get("type")).endswith("Chunk")


def is_last(message: Message) -> bool:
    return message.get("chunk_position") == "last"


def is_text(chunk: Message) -> bool:
    """Whether the chunk adds nothing to its message except text."""
    return isinstance(chunk.get("content"), str) and not any(chunk.get(field) for field in _NOT_TEXT)


def first_chunk(chunk: Message) -> Message:
    """The message that a stream starts with."""
    message = {**chunk, "type": _shown_type(chunk)}
    if message["type"] == "ai":
        _derive_tool_calls(message, _tool_call_chunks(chunk))
        _finish_content(message)
    return message


def merge_chunk(message: Message, chunk: Message) -> Message:
    """The message with one more chunk."""
    merged = {**chunk, **{key: value for key, value in message.items() if value is not None or key not in chunk}}
    if "content" in message or "content" in chunk:
        merged["content"] = _merge_content(message.get("content"), chunk.get("content"))
    for key in ("additional_kwargs", "response_metadata"):
        if key in message or key in chunk:
            merged[key] = _merge_dicts(message.get(key) or {}, chunk.get(key) or {})
    merged["type"] = _shown_type(message)
    if merged["type"] == "ai":
        _merge_ai(merged, message, chunk)
    elif merged["type"] == "tool":
        _merge_tool(merged, message, chunk)
    return merged


def _shown_type(message: Message) -> str:
    kind = str(message.get("type"))
    return _TYPES.get(kind, kind)


# -- messages of models and tools -------------------------------------------------------------------------------------


def _merge_ai(merged: Message, message: Message, chunk: Message) -> None:
    before, after = message.get("usage_metadata"), chunk.get("usage_metadata")
    if before or after is not None:
        merged["usage_metadata"] = _add_usage(before, after)
    if is_last(message) or is_last(chunk):
        merged["chunk_position"] = "last"
    _derive_tool_calls(merged, _merge_lists(_tool_call_chunks(message), _tool_call_chunks(chunk)))
    _finish_content(merged)


def _merge_tool(merged: Message, message: Message, chunk: Message) -> None:
    if "artifact" in message or "artifact" in chunk:
        merged["artifact"] = _merge_values(message.get("artifact"), chunk.get("artifact"))
    if "error" in (message.get("status"), chunk.get("status")):
        merged["status"] = "error"


def _tool_call_chunks(message: Message) -> list[Json]:
    """The message's tool call chunks. If it has only whole calls, these are converted to chunks."""
    if chunks := message.get("tool_call_chunks"):
        return list(chunks)
    calls = [_call_chunk({**call, "args": json.dumps(call.get("args"))}) for call in message.get("tool_calls") or ()]
    return [*calls, *(_call_chunk(call) for call in message.get("invalid_tool_calls") or ())]


def _call_chunk(call: dict[str, Json]) -> dict[str, Json]:
    named = {key: call.get(key) for key in ("name", "args", "id")}
    return {**named, "index": call.get("index"), "type": "tool_call_chunk"}


def _derive_tool_calls(message: Message, chunks: list[Json]) -> None:
    """Set the tool calls, valid and invalid, that result from the chunks."""
    if not chunks:
        return
    calls: list[Json] = []
    invalid: list[Json] = []
    message["tool_call_chunks"] = [_call_chunk(chunk) for chunk in chunks]
    for chunk in message["tool_call_chunks"]:
        args = _parsed_args(chunk["args"])
        if isinstance(args, dict):
            calls.append({"name": chunk["name"] or "", "args": args, "id": chunk["id"], "type": "tool_call"})
        else:
            named = {key: chunk[key] for key in ("name", "args", "id")}
            invalid.append({**named, "error": None, "type": "invalid_tool_call"})
    message["tool_calls"], message["invalid_tool_calls"] = calls, invalid


def _parsed_args(args: Json) -> Json:
    try:
        return parse_partial_json(args) if args else {}
    except (TypeError, ValueError, RecursionError):
        return None


def _finish_content(message: Message) -> None:
    """Convert the tool call chunks in the content to whole calls, once the last chunk is merged (4.13b)."""
    content = message.get("content")
    version = (message.get("response_metadata") or {}).get("output_version")
    if is_last(message) and version == "v1" and isinstance(content, list):
        calls = {call["id"]: call for call in message.get("tool_calls") or () if call["id"]}
        message["content"] = [_finished(block, calls) for block in content]


def _finished(block: Json, calls: dict[str, Json]) -> Json:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "tool_call_chunk" and block.get("id") in calls:
        extras = {"extras": block["extras"]} if "extras" in block else {}
        return {**calls[block["id"]], **extras}
    if kind in ("server_tool_call", "server_tool_call_chunk") and isinstance(block.get("args") or "{}", str):
        try:
            args = json.loads(block.get("args") or "{}")
        except ValueError:
            return block
        if isinstance(args, dict):
            return {**block, "type": "server_tool_call", "args": args}
    return block


def _add_usage(left: Json, right: Json) -> Json:
    if not left and not right:
        return {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    if not left or not right:
        return left or right
    return {key: _added(left.get(key), right.get(key)) for key in {**left, **right}}


def _added(left: Json, right: Json) -> Json:
    if isinstance(left, dict) or isinstance(right, dict):
        left, right = left or {}, right or {}
        return {key: _added(left.get(key), right.get(key)) for key in {**left, **right}}
    return (left or 0) + (right or 0)


# -- content, lists, objects ------------------------------------------------------------------------------------------


def _merge_content(left: Json, right: Json) -> Json:
    left, right = left if left is not None else "", right if right is not None else ""
    if isinstance(left, str):
        return left + right if isinstance(right, str) else [left, *right]
    if isinstance(right, list):
        return _merge_lists(left, right)
    if left and isinstance(left[-1], str):
        return [*left[:-1], left[-1] + right]
    return [*left, right] if left and right else left


def _merge_lists(left: list[Json], right: list[Json]) -> list[Json]:
    merged = list(left)
    for item in right:
        at = _same_item(merged, item) if _has_index(item) else None
        if at is None:
            merged.append(item)
        else:
            merged[at] = _merge_dicts(merged[at], _added_part(merged[at], item))
    return merged


def _has_index(item: Json) -> bool:
    index = item.get("index") if isinstance(item, dict) else None
    return isinstance(index, int) or (isinstance(index, str) and index.startswith("lc_"))


def _same_item(items: list[Json], item: dict[str, Json]) -> int | None:
    """The index of the element that the item continues."""
    for at, other in enumerate(items):
        if isinstance(other, dict) and "index" in other and other["index"] == item["index"]:
            ids = (other.get("id"), item.get("id"))
            if None in ids or "" in ids or ids[0] == ids[1]:
                return at
    return None


def _added_part(left: dict[str, Json], item: dict[str, Json]) -> dict[str, Json]:
    """The part of an item that is merged into the element that it continues: everything except its type."""
    if left.get("type") and item.get("type") == "non_standard" and isinstance(item.get("value"), dict):
        value = {key: part for key, part in item["value"].items() if key != "type"}
        return {"extras": value} if left["type"] != "non_standard" else {"value": value, "index": item["index"]}
    return {key: part for key, part in item.items() if key != "type"}


def _merge_dicts(left: dict[str, Json], right: dict[str, Json]) -> dict[str, Json]:
    merged = dict(left)
    for key, value in right.items():
        if merged.get(key) is None:
            merged[key] = value
        elif value is not None:
            merged[key] = _merge_field(key, merged[key], value)
    return merged


def _merge_field(key: str, left: Json, right: Json) -> Json:
    if type(left) is not type(right):
        return right
    if isinstance(left, str):
        if (key == "index" and left.startswith("lc_")) or (key in _NAMES and left == right):
            return left
        return left + right
    if isinstance(left, (dict, list)):
        return _merge_values(left, right)
    if type(left) is int and left != right and key not in _LATEST:
        return left + right
    return right


_NAMES = ("id", "output_version", "model_provider")
_LATEST = ("index", "created", "timestamp")


def _merge_values(left: Json, right: Json) -> Json:
    if left is None or right is None or type(left) is not type(right):
        return right if right is not None else left
    if isinstance(left, str):
        return left + right
    if isinstance(left, dict):
        return _merge_dicts(left, right)
    return _merge_lists(left, right) if isinstance(left, list) else right
