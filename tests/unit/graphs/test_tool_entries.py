"""`tool` entries are the same from the stream mode `tools` and from callbacks."""

from contextlib import suppress
from typing import Any

import pytest
from attempts import FakeRecorder, attempt
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.memory import InMemoryStore
from langgraph.types import interrupt

from threadwire.core.entries import Kind
from threadwire.core.ids import RunId, ThreadId
from threadwire.graphs.execution import Execution
from threadwire.graphs.langgraph_private.tools_mode import has_tools_mode

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

RUN = RunId("01900000-0000-7000-8000-000000000001")
THREAD = ThreadId("01900000-0000-7000-8000-000000000002")


@pytest.fixture(params=["tools mode", "callbacks"], autouse=True)
def source(request: pytest.FixtureRequest) -> str:
    if request.param == "callbacks":
        request.getfixturevalue("unpatched_process")
        assert not has_tools_mode()
    return request.param


class ToolFailed(Exception):
    pass


@tool
def double(x: int) -> int:
    """Sync: runs on a thread."""
    return 2 * x


@tool
async def fail(x: int) -> int:
    """Raises."""
    raise ToolFailed(f"no {x}")


@tool
async def ask(x: int) -> Any:
    """Asks for input."""
    return interrupt("and?")


def calling(name: str) -> Any:
    """A graph whose only node calls a tool."""

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("", tool_calls=[{"name": name, "args": {"x": 21}, "id": "call-1"}])]}

    tools = ToolNode([double, fail, ask], handle_tool_errors=False)
    graph = StateGraph(MessagesState).add_node("call", call).add_node("tools", tools)
    return graph.add_edge(START, "call").add_edge("call", "tools").compile()


async def recorded(graph: Any) -> list[tuple[int, dict[str, Any]]]:
    """The namespace's depth and the data of each `tool` entry."""
    recorder = FakeRecorder()
    execution = Execution(attempt(RUN, THREAD, input={"messages": []}), recorder)
    with suppress(ToolFailed):
        await execution.drive(graph, InMemorySaver(), InMemoryStore())
    return [(len(each.ns), each.data) for each in recorder.drafts if each.kind == Kind.TOOL]


STARTED = {"event": "tool-started", "tool_call_id": "call-1", "input": {"x": 21}}


async def test_a_tool_call_is_recorded_with_its_output() -> None:
    (_, started), (_, finished) = await recorded(calling("double"))
    assert started == {**STARTED, "tool_name": "double"}
    assert (finished["event"], finished["tool_call_id"]) == ("tool-finished", "call-1")
    assert finished["output"]["content"] == "42"
    assert list(finished) == ["event", "tool_call_id", "output"]


async def test_a_tool_call_that_fails_is_recorded_with_its_error() -> None:
    assert [data for _, data in await recorded(calling("fail"))] == [
        {**STARTED, "tool_name": "fail"},
        {"event": "tool-error", "tool_call_id": "call-1", "message": "no 21"},
    ]


async def test_a_tool_call_that_asks_for_input_has_not_failed() -> None:
    assert [data for _, data in await recorded(calling("ask"))] == [{**STARTED, "tool_name": "ask"}]


async def test_a_tool_call_in_a_subgraph_has_its_namespace() -> None:
    outer = StateGraph(MessagesState).add_node("inner", calling("double")).add_edge(START, "inner").compile()
    assert [(depth, data["event"]) for depth, data in await recorded(outer)] == [
        (1, "tool-started"),
        (1, "tool-finished"),
    ]


async def test_a_tool_call_is_recorded_between_the_parts_before_and_after_it() -> None:
    recorder = FakeRecorder()
    execution = Execution(attempt(RUN, THREAD, input={"messages": []}), recorder)
    await execution.drive(calling("double"), InMemorySaver(), InMemoryStore())
    kinds = [each.kind for each in recorder.drafts]
    started, finished = (at for at, kind in enumerate(kinds) if kind == Kind.TOOL)
    tasks = [at for at, each in enumerate(recorder.drafts) if each.kind == Kind.TASK and each.data["name"] == "tools"]
    assert tasks[0] < started < finished < tasks[1]
