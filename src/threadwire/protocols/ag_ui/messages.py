"""Conversion between LangChain's messages and AG-UI's.

One LangChain message may be two AG-UI messages: reasoning is a message of its own there, before the text. Its id is
derived from the message's, so that it is the same for a client that followed the stream and one that loads the thread.
"""

from collections.abc import Iterator
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import dumps, loads_exactly
from threadwire.core.message_content import (
    message_type,
    reasoning_of,
    text_of,
    text_of_block,
    tool_calls_of,
    tool_result_text,
)

Message = dict[str, Any]

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "developer": "developer"}
_TYPES = {role: kind for kind, role in _ROLES.items()}
_MEDIA = ("image", "audio", "video")

STOPPED = '{"status":"stopped"}'


def reasoning_id(message_id: str) -> str:
    return f"{message_id}-reasoning"


def shown_messages(conversation: list[Json]) -> list[Message]:
    """A committed conversation as AG-UI messages."""
    return [shown for at, message in enumerate(conversation) for shown in _shown(message, at)]


def _shown(message: Json, at: int) -> Iterator[Message]:
    message_id = str(message.get("id") or f"message-{at}")
    kind = message_type(message)
    if kind == "tool":
        yield tool_message(message, message_id)
    elif kind == "ai":
        yield from _assistant_messages(message, message_id)
    elif kind == "human":
        yield _named({"id": message_id, "role": "user", "content": user_content(message.get("content"))}, message)
    else:
        role = _ROLES.get(kind) or str(message.get("role") or "assistant")
        role = role if role in ("system", "developer", "user") else "assistant"
        yield _named({"id": message_id, "role": role, "content": text_of(message.get("content"))}, message)


def _assistant_messages(message: Json, message_id: str) -> Iterator[Message]:
    if reasoning := reasoning_of(message.get("content"), message.get("additional_kwargs")):
        yield {"id": reasoning_id(message_id), "role": "reasoning", "content": reasoning}
    shown: Message = {"id": message_id, "role": "assistant"}
    calls = [tool_call(*each) for each in tool_calls_of(message, message_id)]
    text = text_of(message.get("content"))
    if text or not calls:
        shown["content"] = text
    if calls:
        shown["toolCalls"] = calls
    yield _named(shown, message)


def tool_call(call_id: str, name: str, arguments: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_message(message: Json, message_id: str) -> Message:
    return {
        "id": message_id,
        "role": "tool",
        "toolCallId": str(message.get("tool_call_id") or ""),
        "content": tool_result_text(message.get("content")),
    }


def call_ids(message: Message) -> set[str]:
    return {call["id"] for call in message.get("toolCalls", ())}


def stopped_result(call_id: str) -> Message:
    """The result of a call whose tool was stopped before it returned one. Models reject a call without a result."""
    return {"id": f"{call_id}-stopped", "role": "tool", "toolCallId": call_id, "content": STOPPED}


def _named(shown: Message, message: Json) -> Message:
    if isinstance(name := message.get("name"), str) and name:
        shown["name"] = name
    return shown


# -- users' messages -------------------------------------------------------------------------------------------------


def user_content(content: Json) -> str | list[Json]:
    """The content of a user's message: text, or parts if there is more than text."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else "" if content is None else dumps(content).decode()
    if all(isinstance(block, str) for block in content):
        return "".join(content)
    return [_part(block) for block in content]


def _part(block: Json) -> Json:
    if (text := text_of_block(block)) is not None:
        return {"type": "text", "text": text}
    if isinstance(block, dict):
        kind = block.get("type")
        if kind == "image_url":
            image = block.get("image_url")
            return {"type": "image", "source": _source_of_url(image.get("url") if isinstance(image, dict) else image)}
        if kind in (*_MEDIA, "file"):
            source = _source(block)
            if source is not None:
                return {"type": "document" if kind == "file" else kind, "source": source}
    return {"type": "text", "text": dumps(block).decode()}


def _source(block: dict[str, Json]) -> Json | None:
    mime = block.get("mime_type") or "application/octet-stream"
    for name in ("base64", "data"):
        if isinstance(found := block.get(name), str):
            return {"type": "data", "value": found, "mimeType": mime}
    if isinstance(url := block.get("url"), str):
        return {"type": "url", "value": url, **({"mimeType": block["mime_type"]} if "mime_type" in block else {})}
    return None


def _source_of_url(url: Json) -> Json:
    text = str(url)
    head, comma, data = text.partition(",")
    if head.startswith("data:") and comma and head.endswith(";base64"):
        return {"type": "data", "value": data, "mimeType": head[5:-7] or "application/octet-stream"}
    return {"type": "url", "value": text}


def to_langchain(message: Message) -> Json | None:
    """A client's message in LangGraph's format; None for roles that only concern the client."""
    role = message.get("role")
    kind = _TYPES.get(str(role))
    if kind is None:  # reasoning, activity
        return None
    converted: dict[str, Json] = {"type": kind, "id": message["id"], "content": _content(message.get("content"))}
    if isinstance(name := message.get("name"), str) and name:
        converted["name"] = name
    if kind == "tool":
        converted["tool_call_id"] = message.get("toolCallId", "")
        if message.get("error"):
            converted["status"] = "error"
    if kind == "ai" and message.get("toolCalls"):
        converted["tool_calls"] = [_langchain_call(each) for each in message["toolCalls"]]
    if kind == "developer":
        converted = {**converted, "type": "system", "additional_kwargs": {"__openai_role__": "developer"}}
    return converted


def _langchain_call(call: Json) -> Json:
    function = call.get("function") or {}
    try:
        arguments = loads_exactly(str(function.get("arguments") or "{}"))
    except ValueError:
        arguments = {}
    return {
        "type": "tool_call",
        "id": call.get("id"),
        "name": function.get("name", ""),
        "args": arguments if isinstance(arguments, dict) else {},
    }


def _content(content: Json) -> Json:
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    return [_block(part) for part in content]


def _block(part: Json) -> Json:
    kind, source = part.get("type"), part.get("source") or {}
    if kind == "text":
        return {"type": "text", "text": part.get("text", "")}
    if kind == "binary":  # the format in which older clients send files
        source = {"type": "data" if part.get("data") else "url", "value": part.get("data") or part.get("url")}
        source["mimeType"] = part.get("mimeType")
        kind = str(part.get("mimeType") or "").partition("/")[0]
    converted: dict[str, Json] = {"type": kind if kind in _MEDIA else "file"}
    converted["base64" if source.get("type") == "data" else "url"] = source.get("value")
    if source.get("mimeType"):
        converted["mime_type"] = source["mimeType"]
    return converted
