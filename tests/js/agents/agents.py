"""The graphs that the JavaScript clients run. Replies are scripted, and long where a test needs time to intervene."""

import asyncio
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import interrupt

from threadwire.testing.scripted import ScriptedChatModel

Graph = CompiledStateGraph[Any, Any, Any, Any]


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    answer: Any


def numbered_words(prefix: str, count: int) -> str:
    return " ".join(f"{prefix}{number}" for number in range(count))


def replies_with(text: str, *, delay: float = 0.0, message_id: str | None = None) -> Any:
    model = ScriptedChatModel(reply=lambda _: AIMessage(content=text, id=message_id), delay=delay)

    async def reply(state: Chat) -> Chat:
        get_stream_writer()({"speaking": text[:5]})
        return {"messages": [await model.ainvoke(state["messages"])]}

    return reply


def sequence(**nodes: Any) -> Graph:
    return StateGraph(Chat).add_sequence(list(nodes.items())).add_edge(START, next(iter(nodes))).compile()


chat = sequence(model=replies_with("Hello from the model"))
slow_chat = sequence(model=replies_with(numbered_words("w", 60), delay=0.05))
same_id_chat = sequence(model=replies_with(numbered_words("w", 60), delay=0.05, message_id="the-answer"))
two_replies = sequence(
    opening=replies_with(numbered_words("a", 5)), closing=replies_with(numbered_words("b", 60), delay=0.05)
)
nested_chat = sequence(inner=sequence(model=replies_with("Hello from within")))
slow_nested_chat = sequence(inner=sequence(model=replies_with(numbered_words("w", 30), delay=0.05)))


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def call_tool_or_report(conversation: list[BaseMessage]) -> AIMessage:
    if conversation[-1].type == "tool":
        return AIMessage(content=f"The sum is {conversation[-1].text}")
    return AIMessage(content="", tool_calls=[{"name": "add", "args": {"a": 1, "b": 2}, "id": "call-1"}])


# The thread stream of the JavaScript SDK may miss events of a run that ends before its subscriptions are open.
_tool_model = ScriptedChatModel(reply=call_tool_or_report, delay=0.05)


async def call(state: Chat) -> Chat:
    return {"messages": [await _tool_model.ainvoke(state["messages"])]}


async def use(state: Chat) -> Chat:
    request = state["messages"][-1]
    assert isinstance(request, AIMessage)
    return {"messages": [await add.ainvoke({**request.tool_calls[0], "type": "tool_call"})]}


tool_chat = sequence(call=call, use=use, report=call)


async def ask(state: Chat) -> Chat:
    return {"answer": interrupt({"question": "May I?"})}


approve = sequence(ask=ask, model=replies_with("Done as you said"))


def asks_for(what: str) -> Any:
    async def ask_for_it(state: Chat) -> Chat:
        return {"messages": [AIMessage(content=f"{what}: {interrupt({'question': what})}", id=what)]}

    return ask_for_it


approve_both = (
    StateGraph(Chat)
    .add_node("first", asks_for("first"))
    .add_node("second", asks_for("second"))
    .add_edge(START, "first")
    .add_edge(START, "second")
    .compile()
)


async def boom(state: Chat) -> Chat:
    raise ValueError("boom!")


fails = sequence(boom=boom)


async def forever(state: Chat) -> Chat:
    get_stream_writer()("waiting")
    await asyncio.sleep(3600)
    return {"answer": "never"}


waits = sequence(wait=forever)


async def remember(state: Chat, *, store: BaseStore) -> Chat:
    text = state["messages"][-1].text
    await store.aput(("notes",), text, {"text": text})
    return {}


remembers = sequence(remember=remember)
