"""Ids for messages that are recorded before the state's reducer assigns ids."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langgraph.types import Command


def assign_ids(output: Any) -> None:
    """Give an id to each message in the output of a tool, unless it has one.

    The reducer of the state would assign one when the step ends, and keeps an id that a message already has. Clients
    need it when the tool ends: CopilotKit's `LangGraphAgent` turns an `on_tool_end` without one into an invalid event.
    """
    for message in _messages(output):
        if message.id is None:
            message.id = str(uuid4())


def _messages(output: Any) -> Iterator[BaseMessage]:
    if isinstance(output, BaseMessage):
        yield output
    elif isinstance(output, Command):
        yield from _messages(list(output.update.values()) if isinstance(output.update, dict) else output.update)
    elif isinstance(output, list | tuple):
        for each in output:
            yield from _messages(each)
