"""Results for tool calls that have none.

A run that was stopped, or that waits for an answer, leaves tool calls without results. Models reject a conversation in
which another message follows them. Which calls are open is known only when the next run starts: its message may
have been queued long before.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from threadwire.core.entries import Json
from threadwire.core.interrupts import INTERRUPT

DECLINED = "The user did not approve this call, and sent a message instead."
STOPPED = "The call was stopped before it had a result."


async def with_missing_results(
    graph_input: Json, saver: BaseCheckpointSaver[str], thread_id: str, checkpoint_id: str | None
) -> Json:
    """Return the input with the missing results before its messages. The checkpoint that the run starts from shows
    which are missing; if `checkpoint_id` is None, it is the newest one."""
    configurable = {"thread_id": thread_id, "checkpoint_ns": ""}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    saved = await saver.aget_tuple({"configurable": configurable})
    if saved is None:
        return graph_input
    waits = any(channel == INTERRUPT for _, channel, _ in saved.pending_writes or ())
    conversation = saved.checkpoint["channel_values"].get("messages") or ()
    return {**graph_input, "messages": [*_missing_results(conversation, waits=waits), *graph_input["messages"]]}


def _missing_results(conversation: Sequence[Any], *, waits: bool) -> list[ToolMessage]:
    has_result = {each.tool_call_id for each in conversation if isinstance(each, ToolMessage)}
    last = next((each for each in reversed(conversation) if not isinstance(each, ToolMessage)), None)
    calls = last.tool_calls if isinstance(last, AIMessage) else ()
    text = DECLINED if waits else STOPPED
    return [
        ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")
        for call in calls
        if call["id"] and call["id"] not in has_result
    ]
