"""Events that graphs dispatch through their callbacks."""

import threading
from typing import Any, TypedDict

import pytest
from driving import Notebook, attempt
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore

from threadwire.core.entries import Kind
from threadwire.core.ids import RunId, ThreadId
from threadwire.graphs.execution import Execution

pytestmark = pytest.mark.anyio


class Nothing(TypedDict, total=False):
    x: int


RUN = RunId("01900000-0000-7000-8000-000000000001")
THREAD = ThreadId("01900000-0000-7000-8000-000000000002")


async def recorded(*nodes: Any) -> list[tuple[str, Any]]:
    graph = StateGraph(Nothing)
    before = START
    for node in nodes:
        graph.add_node(node.__name__, node).add_edge(before, node.__name__)
        before = node.__name__
    notebook = Notebook()
    ending = await Execution(attempt(RUN, THREAD, input={"x": 1}), notebook).drive(
        graph.compile(), InMemorySaver(), InMemoryStore()
    )
    assert ending.status == "success", ending
    return [(each.kind, each.data) for each in notebook.drafts if each.kind in (Kind.CUSTOM, Kind.DISPATCHED)]


async def test_they_are_recorded_where_they_happened() -> None:
    async def in_a_task(state: Nothing) -> Nothing:
        get_stream_writer()("first")
        await adispatch_custom_event("second", {"n": 2})
        get_stream_writer()("third")
        return {}

    def in_a_thread(state: Nothing) -> Nothing:
        dispatch_custom_event("fourth", [4])
        return {}

    assert await recorded(in_a_task, in_a_thread) == [
        (Kind.CUSTOM, {"value": "first"}),
        (Kind.DISPATCHED, {"name": "second", "data": {"n": 2}}),
        (Kind.CUSTOM, {"value": "third"}),
        (Kind.DISPATCHED, {"name": "fourth", "data": [4]}),
    ]


async def test_what_is_changed_afterwards_was_as_it_was() -> None:
    async def node(state: Nothing) -> Nothing:
        data = {"n": 1}
        await adispatch_custom_event("now", data)
        data["n"] = 2
        return {}

    assert await recorded(node) == [(Kind.DISPATCHED, {"name": "now", "data": {"n": 1}})]


async def test_a_thread_of_the_graphs_own_is_heard_too() -> None:
    """One that was given the config, but does not know in which node it runs."""

    def node(state: Nothing, config: RunnableConfig) -> Nothing:
        thread = threading.Thread(target=lambda: dispatch_custom_event("from afar", 1, config=config))
        thread.start()
        thread.join()
        return {}

    assert await recorded(node) == [(Kind.DISPATCHED, {"name": "from afar", "data": 1})]
