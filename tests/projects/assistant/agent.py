"""Agents behind a page: `sums` speaks before it calls a tool, or two at the same time; `careful` asks first."""

import asyncio
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from threadwire.testing.scripted import ScriptedChatModel


class PageState(MessagesState, total=False):
    total: int


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    await asyncio.sleep(0)
    return str(a + b)


def reply(conversation: list[BaseMessage]) -> AIMessage:
    last, number = conversation[-1], len(conversation)
    if not isinstance(last, HumanMessage):
        results = [str(each.content) for each in conversation if each.type == "tool"]
        return AIMessage(f"The result: {' and '.join(results)}.", id=f"ai-{number}")
    calls = [
        ToolCall(name="add", args={"a": 1, "b": 2}, id=f"call-a-{number}", type="tool_call"),
        ToolCall(name="add", args={"a": 20, "b": 22}, id=f"call-b-{number}", type="tool_call"),
    ]
    return AIMessage("Let me add.", id=f"ai-{number}", tool_calls=calls if last.content == "Add twice" else calls[:1])


async def model(state: PageState) -> dict[str, Any]:
    return {"messages": [await ScriptedChatModel(reply=reply).bind_tools([add]).ainvoke(state["messages"])]}


def total(state: PageState) -> dict[str, Any]:
    return {"total": sum(int(str(each.content)) for each in state["messages"] if each.type == "tool")}


def route(state: PageState) -> str:
    last = state["messages"][-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else "total"


sums = (
    StateGraph(PageState)
    .add_node("model", model)
    .add_node("tools", ToolNode([add]))
    .add_node("total", total)
    .add_edge(START, "model")
    .add_conditional_edges("model", route, ["tools", "total"])
    .add_edge("tools", "model")
    .add_edge("total", END)
    .compile()
)


def ask(state: PageState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"You said {interrupt('Really?')}.", id="ai-answered")]}


careful = StateGraph(PageState).add_node("ask", ask).add_edge(START, "ask").compile()
