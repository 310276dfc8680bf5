"""The patches still apply to the installed version of LangGraph."""

from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from langgraph.pregel.protocol import StreamProtocol
from langgraph.pregel.remote import RemoteGraph

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]


class State(TypedDict):
    text: Any
    said: list[AIMessage]


class Text(str):
    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the characters must not be iterated")


async def test_strings_are_not_searched_for_messages() -> None:

    async def write(state: State) -> State:
        return {"text": Text("long"), "said": [AIMessage("hello", id="m")]}

    graph = StateGraph(State).add_node("write", write).add_edge(START, "write").compile()
    contents = [message.content async for message, _ in graph.astream({}, stream_mode="messages")]
    assert contents == ["hello"]


def test_the_mode_tools_is_not_requested_from_other_servers() -> None:
    remote = RemoteGraph("g", url="http://127.0.0.1:1")
    caller = {"configurable": {"__pregel_stream": StreamProtocol(lambda _: None, {"custom", "tools"})}}
    modes, requested, *_ = remote._get_stream_modes("values", caller)  # type: ignore[arg-type]
    assert (sorted(modes), requested) == (["custom", "updates", "values"], ["values"])
