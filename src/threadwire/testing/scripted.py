"""A chat model with scripted replies, for examples, tests and benchmarks that need no API key.

It streams as real models do: text word by word, then tool calls whose JSON arrives in pieces, then the usage. So
code that works with it works with real models.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

Reply = Callable[[list[BaseMessage]], AIMessage]

_WORD = re.compile(r"\s*\S+|\s+")
_ARGUMENT_PIECE = 12  # characters of a tool call's JSON in one chunk


class ScriptedChatModel(BaseChatModel):
    """Replies with `reply(conversation)`, waiting `delay` seconds before each streamed chunk."""

    reply: Reply = Field(exclude=True, repr=False)
    delay: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "threadwire-scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = self.reply(messages)
        usage = message.usage_metadata or _usage(messages, message)
        whole = message.model_copy(update={"usage_metadata": usage})
        return ChatResult(generations=[ChatGeneration(message=whole)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages)  # the inherited method would use a thread

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(messages, self.reply(messages)):
            if self.delay:
                time.sleep(self.delay)
            yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(messages, self.reply(messages)):
            # Even without a delay: a real model always waits for its provider, and a graph that never yields to the
            # event loop could be neither followed nor cancelled.
            await asyncio.sleep(self.delay)
            yield ChatGenerationChunk(message=chunk)


def _chunks(conversation: list[BaseMessage], message: AIMessage) -> Iterator[AIMessageChunk]:
    if isinstance(message.content, str):
        for word in _WORD.findall(message.content):
            yield AIMessageChunk(content=word, id=message.id)
    else:
        for at, block in enumerate(message.content):
            for piece in _pieces(block, at):
                yield AIMessageChunk(content=[piece], id=message.id)
    for index, call in enumerate(message.tool_calls):
        yield from _tool_call_chunks(index, call, message.id)
    yield AIMessageChunk(
        content="" if isinstance(message.content, str) else [],
        id=message.id,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata or _usage(conversation, message),
        chunk_position="last",
    )


def _pieces(block: str | dict[str, Any], at: int) -> Iterator[str | dict[str, Any]]:
    """Split a content block as models stream it: text and reasoning word by word, anything else whole."""
    if isinstance(block, str):
        yield block
        return
    name = next((name for name in ("text", "reasoning", "thinking") if isinstance(block.get(name), str)), None)
    if name is None:
        yield {**block, "index": at}
        return
    for word in _WORD.findall(block[name]):
        yield {**block, name: word, "index": at}


def _tool_call_chunks(index: int, call: ToolCall, message_id: str | None) -> Iterator[AIMessageChunk]:
    """Yield the name and id first, then the arguments, as providers do."""
    opening = tool_call_chunk(name=call["name"], args="", id=call["id"], index=index)
    yield AIMessageChunk(content="", id=message_id, tool_call_chunks=[opening])
    arguments = json.dumps(call["args"])
    for start in range(0, len(arguments), _ARGUMENT_PIECE):
        piece = tool_call_chunk(args=arguments[start : start + _ARGUMENT_PIECE], index=index)
        yield AIMessageChunk(content="", id=message_id, tool_call_chunks=[piece])


def _usage(conversation: list[BaseMessage], message: AIMessage) -> UsageMetadata:
    """Count words instead of tokens: no tokenizer is needed, and the same text always has the same usage."""
    read = sum(len(each.text.split()) for each in conversation)
    written = len(message.text.split()) + sum(1 + len(call["args"]) for call in message.tool_calls)
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
