"""A streamed message so far: the sum of its chunks, as LangChain defines it."""

from typing import Any

from langchain_core.messages import (
    AIMessageChunk,
    BaseMessageChunk,
    ChatMessageChunk,
    FunctionMessageChunk,
    HumanMessageChunk,
    SystemMessageChunk,
    ToolMessageChunk,
    message_chunk_to_message,
)

from threadwire.core.entries import Json
from threadwire.core.json import native
from threadwire.core.message_fold import StreamedMessage

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
_NOT_TEXT = (
    "tool_call_chunks",
    "usage_metadata",
    "additional_kwargs",
    "response_metadata",
    "chunk_position",
)


class AccumulatedMessage:
    """Appends plain text itself, because it arrives in thousands of chunks. LangChain merges all other chunks."""

    __slots__ = ("_chunk", "_merged", "_text", "value")

    def __init__(self, first: dict[str, Json]) -> None:
        self._chunk = first
        self._merged = _chunk_of(first)
        self._render()

    def add(self, message: StreamedMessage) -> None:
        """Add the message's last chunk."""
        if message.change == "text" and self._is_only_text():
            self._text += message.content
            self.value["content"] += message.content
            return
        if self._text:
            self._merged = self._merged + _chunk_of({**self._chunk, "content": self._text})
        self._chunk = message.chunk()
        self._merged = self._merged + _chunk_of(self._chunk)
        self._render()

    def _is_only_text(self) -> bool:
        """Whether the last chunk, and so any `text` change, adds nothing but text."""
        return isinstance(self.value["content"], str) and not any(self._chunk.get(field) for field in _NOT_TEXT)

    def _render(self) -> None:
        self._text = ""
        self.value: dict[str, Json] = native(message_chunk_to_message(self._merged))


def _chunk_of(fields: dict[str, Json]) -> Any:
    return _CHUNKS.get(str(fields.get("type")), AIMessageChunk)(**fields)
