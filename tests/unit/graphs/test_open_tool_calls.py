"""Tool calls without results get one, so that models accept the conversation."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from threadwire.graphs.open_tool_calls import DECLINED, STOPPED, with_missing_results

pytestmark = pytest.mark.anyio

HUMAN = {"type": "human", "content": "next"}
CALLS = [{"name": name, "args": {}, "id": name, "type": "tool_call"} for name in ("pay", "mail")]


async def saver_with(messages: list[object], *, asks: bool = False) -> InMemorySaver:
    saver = InMemorySaver()

    async def node(state: MessagesState) -> None:
        if asks:
            interrupt("Sure?")

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
    await graph.ainvoke({"messages": messages}, {"configurable": {"thread_id": "t"}})
    return saver


async def completed(saver: InMemorySaver) -> list[object]:
    return list((await with_missing_results({"messages": [HUMAN]}, saver, "t", None))["messages"])


@pytest.mark.parametrize(("asks", "text"), [(True, DECLINED), (False, STOPPED)])
async def test_an_open_call_gets_a_result_in_front_of_the_input(asks: bool, text: str) -> None:
    answered = ToolMessage("paid", tool_call_id="pay")
    saver = await saver_with([HumanMessage("x"), AIMessage("", tool_calls=CALLS), answered], asks=asks)

    result, human = await completed(saver)

    assert human is HUMAN
    assert isinstance(result, ToolMessage)
    assert (result.tool_call_id, result.name, result.content, result.status) == ("mail", "mail", text, "error")


@pytest.mark.parametrize(
    "messages", [[HumanMessage("x")], [AIMessage("y")], [AIMessage("", tool_calls=CALLS), AIMessage("z")]]
)
async def test_nothing_is_added_if_no_call_of_the_last_message_is_open(messages: list[object]) -> None:
    assert await completed(await saver_with(messages)) == [HUMAN]


async def test_a_new_thread_has_no_open_calls() -> None:
    assert await completed(InMemorySaver()) == [HUMAN]
