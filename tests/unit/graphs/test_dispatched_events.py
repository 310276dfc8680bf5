"""Events that graphs dispatch through their callbacks."""

import threading
from typing import Any, TypedDict

import pytest
from attempts import FakeRecorder, attempt
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore

from threadwire.core.entries import Kind
from threadwire.core.ids import RunId, ThreadId
from threadwire.graphs.execution import Execution

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]


class State(TypedDict, total=False):
    x: int


RUN = RunId("01900000-0000-7000-8000-000000000001")
THREAD = ThreadId("01900000-0000-7000-8000-000000000002")


@pytest.fixture(params=["patched", "unpatched"], autouse=True)
def process(request: pytest.FixtureRequest) -> None:
    if request.param == "unpatched":
        request.getfixturevalue("unpatched_process")


async def recorded(*nodes: Any) -> list[tuple[str, Any]]:
    graph = StateGraph(State)
    before = START
    for node in nodes:
        graph.add_node(node.__name__, node).add_edge(before, node.__name__)
        before = node.__name__
    recorder = FakeRecorder()
    ending = await Execution(attempt(RUN, THREAD, input={"x": 1}), recorder).drive(
        graph.compile(), InMemorySaver(), InMemoryStore()
    )
    assert ending.status == "success", ending
    return [(each.kind, each.data) for each in recorder.drafts if each.kind in (Kind.CUSTOM, Kind.DISPATCHED)]


async def test_events_are_recorded_in_order() -> None:
    async def in_a_task(state: State) -> State:
        get_stream_writer()("first")
        await adispatch_custom_event("second", {"n": 2})
        get_stream_writer()("third")
        return {}

    def in_a_thread(state: State) -> State:
        dispatch_custom_event("fourth", [4])
        return {}

    assert await recorded(in_a_task, in_a_thread) == [
        (Kind.CUSTOM, {"value": "first"}),
        (Kind.DISPATCHED, {"name": "second", "data": {"n": 2}}),
        (Kind.CUSTOM, {"value": "third"}),
        (Kind.DISPATCHED, {"name": "fourth", "data": [4]}),
    ]


async def test_data_changed_after_dispatching_is_recorded_unchanged() -> None:
    async def node(state: State) -> State:
        data = {"n": 1}
        await adispatch_custom_event("now", data)
        data["n"] = 2
        return {}

    assert await recorded(node) == [(Kind.DISPATCHED, {"name": "now", "data": {"n": 1}})]


async def test_events_from_a_thread_started_by_a_node_are_recorded() -> None:
    """The thread has the config but not the context of its node."""

    def node(state: State, config: RunnableConfig) -> State:
        thread = threading.Thread(target=lambda: dispatch_custom_event("from afar", 1, config=config))
        thread.start()
        thread.join()
        return {}

    assert await recorded(node) == [(Kind.DISPATCHED, {"name": "from afar", "data": 1})]
