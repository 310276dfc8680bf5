"""Graphs that access the store in every supported way.

The input of `memory` is {"user", "fact"?, "about"?}: it stores the fact and recalls what it knows.
"""

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolCall
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.runtime import ServerRuntime


class Conversation(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


class Recall(TypedDict, total=False):
    user: str
    fact: str
    about: str
    found: list[Any]


def keep(state: Recall) -> Recall:
    """A sync node, which runs in a thread."""
    if fact := state.get("fact"):
        get_store().put(("facts", state["user"]), fact, {"text": fact})
    return {}


async def keep_also(state: Recall, *, store: BaseStore) -> Recall:
    """An async node with an injected store, which it also calls synchronously."""
    if fact := state.get("fact"):
        await store.aput(("facts", state["user"], "length"), fact, {"length": len(fact)})
        store.put(("facts", state["user"], "length"), "last", {"length": len(fact)})
    return {}


async def recall(state: Recall, runtime: Runtime) -> Recall:
    assert runtime.store is not None
    items = await runtime.store.asearch(("facts", state["user"]), query=state.get("about"))
    return {"found": [[list(item.namespace), item.key, item.value] for item in items]}


memory = (
    StateGraph(Recall)
    .add_sequence([("keep", keep), ("keep_also", keep_also), ("recall", recall)])
    .add_edge(START, "keep")
    .compile(checkpointer=InMemorySaver(), store=InMemoryStore())
)


# -- remembering: a tool and a factory that use the store -------------------------------------------------------------


@tool
def note_down(text: str, store: Annotated[Any, InjectedStore()]) -> str:
    """Note something down."""
    store.put(("notes",), text, {"text": text})
    return f"noted {text}"


def remembering(runtime: ServerRuntime) -> Any:
    store = runtime.store

    def call(state: Conversation) -> Conversation:
        tool_call = ToolCall(name="note_down", args={"text": state["messages"][-1].text}, id="call-1")
        return {"messages": [AIMessage("", tool_calls=[tool_call], id="ai-1")]}

    async def look(state: Conversation) -> Conversation:
        items = await store.asearch(("notes",), filter={"text": state["messages"][0].text})
        return {"messages": [AIMessage(f"found {[item.key for item in items]}", id="ai-2")]}

    graph = StateGraph(Conversation).add_sequence([("call", call), ("tools", ToolNode([note_down])), ("look", look)])
    return graph.add_edge(START, "call").compile()
