"""In the mode `events`, the result of a tool has the id that it has in the state."""

from typing import Annotated, Any

import pytest
from attempts import FakeRecorder, attempt
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from threadwire.core.entries import Kind
from threadwire.core.ids import RunId, ThreadId
from threadwire.graphs.execution import Execution
from threadwire.graphs.message_ids import assign_ids

pytestmark = pytest.mark.anyio

RUN = RunId("01900000-0000-7000-8000-000000000001")
THREAD = ThreadId("01900000-0000-7000-8000-000000000002")


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool
def note(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Note a text in the state."""
    return Command(update={"messages": [ToolMessage(f"noted {text}", tool_call_id=call_id)]})


CALLS = [
    ToolCall(name="add", args={"a": 1, "b": 2}, id="1", type="tool_call"),
    ToolCall(name="add", args={"a": 3, "b": 4}, id="2", type="tool_call"),
    ToolCall(name="note", args={"text": "x"}, id="3", type="tool_call"),
]


async def test_every_tool_result_has_the_id_that_it_has_in_the_state() -> None:
    graph = (
        StateGraph(MessagesState)
        .add_node("model", lambda _: {"messages": [AIMessage("Let me see.", id="ai", tool_calls=CALLS)]})
        .add_node("tools", ToolNode([add, note]))
        .add_edge(START, "model")
        .add_edge("model", "tools")
        .compile()
    )
    recorder = FakeRecorder()
    execution = Execution(attempt(RUN, THREAD, input={}, stream_mode=["events"]), recorder)
    ending = await execution.drive(graph, InMemorySaver(), InMemoryStore())
    assert ending.summary is not None
    stored = {each["tool_call_id"]: each["id"] for each in ending.summary.values["messages"] if each["type"] == "tool"}
    assert None not in stored.values()
    events = [draft.data["value"] for draft in recorder.drafts if draft.kind == Kind.EVENTS]
    outputs = [event["data"]["output"] for event in events if event["event"] == "on_tool_end"]
    results = [output["update"]["messages"][0] if "update" in output else output for output in outputs]
    assert {result["tool_call_id"]: result["id"] for result in results} == stored


def test_an_existing_id_is_kept() -> None:
    message = ToolMessage("x", tool_call_id="1", id="mine")
    assign_ids([message])
    assert message.id == "mine"


@pytest.mark.parametrize("output", [None, "text", {"a": 1}, Command(goto="x"), Command(update=[("a", 1)])])
def test_other_outputs_are_left_alone(output: Any) -> None:
    assign_ids(output)
