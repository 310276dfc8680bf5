"""What a project has that a version of LangGraph could break: an agent with a tool, events, interrupts in a subgraph,
and a factory with the server's runtime."""

from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.callbacks import adispatch_custom_event
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from langgraph_sdk.runtime import ServerRuntime

from threadwire.testing.scripted import ScriptedChatModel


@tool
async def weather(city: str) -> str:
    """Look up the weather."""
    get_stream_writer()({"looking up": city})
    await adispatch_custom_event("looked_up", {"city": city})
    return f"It is sunny in {city}."


def reply(conversation: list[BaseMessage]) -> AIMessage:
    last = conversation[-1]
    if isinstance(last, HumanMessage):
        call = {"name": "weather", "args": {"city": last.text}, "id": "call-1", "type": "tool_call"}
        return AIMessage("Let me look.", id="ai-1", tool_calls=[call])
    return AIMessage(str(last.content), id="ai-2")


agent = create_agent(ScriptedChatModel(reply=reply), [weather], name="agent")


def append(before: list[str], more: list[str]) -> list[str]:
    return [*before, *more]


class Answers(TypedDict, total=False):
    answers: Annotated[list[str], append]


def ask(state: Answers) -> Any:
    return {"answers": [interrupt("first?"), interrupt("second?")]}


inner = StateGraph(Answers).add_node("ask", ask).add_edge(START, "ask").compile()
asker = StateGraph(Answers).add_node("inner", inner).add_edge(START, "inner").compile()


def make(runtime: ServerRuntime) -> Any:
    def node(state: Answers) -> Any:
        return {"answers": [runtime.access_context]}

    return StateGraph(Answers).add_node("node", node).add_edge(START, "node").compile()
