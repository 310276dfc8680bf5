"""What is in a message: its type, text, reasoning, tool calls and tool results, in any of the forms that models use."""

from typing import NamedTuple

from threadwire.core.entries import Json
from threadwire.core.json import dumps


class ToolCall(NamedTuple):
    id: str
    name: str
    arguments: str
    """JSON text, complete or not."""


def is_conversation(value: Json) -> bool:
    """Whether a value, such as that of a state's `messages` key, is a list of messages."""
    return isinstance(value, list) and all(
        isinstance(each, dict) and isinstance(each.get("type"), str) and "content" in each for each in value
    )


def conversation_of(values: Json) -> list[Json]:
    """The messages of a state; none if it has no list of messages."""
    messages = values.get("messages") if isinstance(values, dict) else None
    return messages if isinstance(messages, list) and is_conversation(messages) else []


def message_type(message: Json) -> str:
    """The type of a message or chunk: `ai` for `AIMessageChunk`, and so on."""
    kind = str(message.get("type", ""))
    return kind.removesuffix("MessageChunk").lower() if kind.endswith("MessageChunk") else kind


def text_of(content: Json) -> str:
    """The text of a message's content, without reasoning."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else dumps(content).decode()
    return "".join(text_of_block(block) or "" for block in content)


def text_of_block(block: Json) -> str | None:
    """The text of one block of a message's content; None if the block is something else."""
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and block.get("type") in ("text", "text_delta") and isinstance(block.get("text"), str):
        return str(block["text"])
    return None


def reasoning_of(content: Json, additional: Json = None) -> str:
    """The reasoning in a message's content and its `additional_kwargs`."""
    value = additional.get("reasoning_content") if isinstance(additional, dict) else None
    reasoning = value if isinstance(value, str) else ""
    return reasoning + "".join(_reasoning(block) for block in content) if isinstance(content, list) else reasoning


def _reasoning(block: Json) -> str:
    if not isinstance(block, dict) or block.get("type") not in ("reasoning", "thinking", "reasoning_content"):
        return ""
    for name in ("reasoning", "thinking", "text"):
        if isinstance(found := block.get(name), str):
            return found
    summary = block.get("summary")
    if isinstance(summary, list):
        return "".join(str(each.get("text", "")) for each in summary if isinstance(each, dict))
    return ""


def tool_calls_of(message: Json, message_id: str) -> list[ToolCall]:
    """The tool calls of a whole message, in order."""
    return [
        ToolCall(
            call.get("id") or derived_call_id(message_id, at),
            call.get("name") or "",
            dumps(call.get("args") if call.get("args") is not None else {}).decode(),
        )
        for at, call in enumerate(message.get("tool_calls") or ())
    ]


def derived_call_id(message_id: str, number: int) -> str:
    """The id of a call that has none from the model. It is the same for a streamed message and a whole one."""
    return f"{message_id}:{number}"


def tool_result_text(content: Json) -> str:
    """A tool's result as text: unchanged if it is text, otherwise as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(text_of_block(block) is not None for block in content):
        return text_of(content)
    return dumps(content).decode()
