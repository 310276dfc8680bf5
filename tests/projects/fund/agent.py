"""A fund: five metrics that every run refreshes, and a reply in two parts. Between them it waits for the file `until`,
if there is one."""

import asyncio
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import START, MessagesState, StateGraph

from threadwire.testing.scripted import ScriptedChatModel


class FundState(MessagesState, total=False):
    until: str
    income7d: float
    apy: float
    users: int
    aum: float
    points: int


def measure(state: FundState) -> dict[str, Any]:
    points = state.get("points", 0) + 1
    return {"income7d": 7.5 * points, "apy": 4.2, "users": 100 + points, "aum": 1e6, "points": points}


def saying(text: str) -> Any:
    async def say(state: FundState) -> dict[str, Any]:
        def reply(conversation: list[BaseMessage]) -> AIMessage:
            return AIMessage(text, id=f"ai-{len(conversation)}")

        return {"messages": [await ScriptedChatModel(reply=reply).ainvoke(state["messages"])]}

    return say


async def wait(state: FundState) -> dict[str, Any]:
    while (until := state.get("until")) and not await asyncio.to_thread(Path(until).exists):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return {}


def fail(state: FundState) -> dict[str, Any]:
    raise ValueError("The market is closed.")


fund = (
    StateGraph(FundState)
    .add_node("measure", measure)
    .add_node("first", saying("Let me look."))
    .add_node("wait", wait)
    .add_node("last", saying("All is well."))
    .add_edge(START, "measure")
    .add_edge("measure", "first")
    .add_edge("first", "wait")
    .add_edge("wait", "last")
    .compile()
)

broken = (
    StateGraph(FundState)
    .add_node("wait", wait)
    .add_node("fail", fail)
    .add_edge(START, "wait")
    .add_edge("wait", "fail")
    .compile()
)
