"""The state of a thread can be read whatever the last run left behind."""

from typing import Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import START, MessagesState, StateGraph

from threadwire.errors import NotFound
from threadwire.graphs import state

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

THREAD = {"thread_id": "t", "checkpoint_ns": ""}
MALFORMED = {"role": "nonsense", "content": "hi"}


def replies(reply: Any) -> Any:
    return StateGraph(MessagesState).add_node("reply", lambda _: {"messages": [reply]}).add_edge(START, "reply")


@pytest.mark.parametrize("subgraphs", [False, True])
async def test_a_state_with_a_malformed_input_is_shown_without_it(subgraphs: bool) -> None:
    saver, graph = InMemorySaver(), replies("fine").compile()
    await run(graph, saver, HumanMessage("good", id="1"))
    with pytest.raises(ValueError, match="Unexpected message type"):
        await run(graph, saver, MALFORMED)
    read = await state.read(graph, saver, THREAD, subgraphs=subgraphs)
    assert [message["content"] for message in read["values"]["messages"]] == ["good", "fine"]
    assert read["next"] == ["__start__"]
    assert [task["result"] for task in read["tasks"]] == [{"messages": [MALFORMED]}]


async def test_a_state_with_a_malformed_result_is_shown_without_it() -> None:
    saver, graph = InMemorySaver(), replies(MALFORMED).compile()
    with pytest.raises(ValueError, match="Unexpected message type"):
        await run(graph, saver, HumanMessage("good", id="1"))
    read = await state.read(graph, saver, THREAD, subgraphs=False)
    assert [message["content"] for message in read["values"]["messages"]] == ["good"]
    assert (read["next"], read["tasks"][0]["result"]) == (["reply"], {"messages": [MALFORMED]})
    checkpoint_id, summary = await state.newest(graph, saver, "t")
    assert (checkpoint_id, summary.values) == (read["checkpoint_id"], read["values"])


async def test_a_state_with_conflicting_results_is_shown_without_them() -> None:
    class Single(TypedDict, total=False):
        value: int

    builder = StateGraph(Single)
    for node, value in (("one", 1), ("two", 2)):
        builder.add_node(node, lambda _, value=value: {"value": value}).add_edge(START, node)
    saver, graph = InMemorySaver(), builder.compile()
    with pytest.raises(InvalidUpdateError):
        await graph.copy(update={"checkpointer": saver}).ainvoke({"value": 0}, {"configurable": THREAD})
    read = await state.read(graph, saver, THREAD, subgraphs=False)
    assert (read["values"], sorted(read["next"])) == ({"value": 0}, ["one", "two"])


async def test_an_unknown_subgraph_is_still_not_found() -> None:
    saver, graph = InMemorySaver(), replies("fine").compile()
    await run(graph, saver, HumanMessage("good", id="1"))
    with pytest.raises(NotFound, match="Subgraph nowhere not found"):
        await state.read(graph, saver, {**THREAD, "checkpoint_ns": "nowhere"}, subgraphs=False)


async def run(graph: Any, saver: InMemorySaver, message: Any) -> None:
    await graph.copy(update={"checkpointer": saver}).ainvoke({"messages": [message]}, {"configurable": THREAD})
