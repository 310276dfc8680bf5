"""The chat model of the examples: a real one if the environment has an API key, otherwise a script.

A script is a function that takes a conversation and returns the next message. The helpers that all scripts share are
here too: finding the last question and the tool results in a conversation, and calling tools.
"""

import logging
import os
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage

from threadwire.testing.scripted import Reply, ScriptedChatModel

logger = logging.getLogger(__name__)


def choose_model(reply: Reply) -> BaseChatModel:
    """Return a real model, or a model that plays the script `reply`."""
    name = os.environ.get("THREADWIRE_EXAMPLE_MODEL") or _model_with_a_key()
    if name not in (None, "scripted"):
        try:
            from langchain.chat_models import init_chat_model

            return init_chat_model(name)
        except ImportError as error:
            logger.warning("The scripted model answers instead of %s: %s", name, error)
    return ScriptedChatModel(reply=reply, delay=float(os.environ.get("THREADWIRE_EXAMPLE_DELAY", "0.02")))


def _model_with_a_key() -> str | None:
    if os.environ.get("OPENAI_API_KEY"):
        return "openai:gpt-4.1-mini"
    if os.environ.get("ANTHROPIC_API_KEY"):
        return "anthropic:claude-haiku-4-5"
    return None


def last_question(conversation: Sequence[BaseMessage]) -> str:
    return next((message.text for message in reversed(conversation) if isinstance(message, HumanMessage)), "")


def results_of_this_turn(conversation: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return the tool messages since the last message of the model."""
    results: list[ToolMessage] = []
    for message in reversed(conversation):
        if not isinstance(message, ToolMessage):
            break
        results.insert(0, message)
    return results


def call_tools(
    text: str, calls: Sequence[tuple[str, dict[str, Any]]], conversation: Sequence[BaseMessage]
) -> AIMessage:
    # Ids only have to differ within one conversation.
    return AIMessage(
        text,
        tool_calls=[
            ToolCall(name=name, args=args, id=f"call_{len(conversation)}_{number}", type="tool_call")
            for number, (name, args) in enumerate(calls)
        ],
    )
