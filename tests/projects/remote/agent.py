"""An office whose clerk is a graph on a server: `office` calls `clerk` by a RemoteGraph that is one of its nodes."""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import interrupt


def decide(state: MessagesState) -> dict[str, Any]:
    request = str(state["messages"][-1].content)
    if not request.startswith("Pay"):
        return {"messages": [("ai", f"Noted: {request}")]}
    answer = interrupt({"question": f"{request}?"})
    return {"messages": [("ai", f"{request}: {answer}")]}


clerk = StateGraph(MessagesState).add_node("decide", decide).add_edge(START, "decide").compile()


def office(config: RunnableConfig) -> Any:
    """A factory, because the address of the clerk's server is part of the configuration."""
    remote = RemoteGraph("clerk", url=(config.get("configurable") or {}).get("clerks_at", "http://127.0.0.1:1"))
    builder = StateGraph(MessagesState).add_node("clerk", remote)
    builder.add_node("close", lambda _: {"messages": [("ai", "The office is closed.")]})
    return builder.add_edge(START, "clerk").add_edge("clerk", "close").compile()
