"""States of subgraphs: streamed as LangGraph streams them, and released as soon as possible."""

import asyncio
import gc
import operator
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from threadwire.core.encoder import Message
from threadwire.core.entries import Entry, Kind, Namespace
from threadwire.core.ids import RunId, Seq
from threadwire.core.json import dumps, native
from threadwire.graphs.execution import RECORDED_MODES
from threadwire.graphs.stream_normalizer import Normalizer
from threadwire.protocols.langgraph.encode import RunStreamEncoder, StreamOptions

pytestmark = pytest.mark.anyio

RUN = RunId("01a1e0f0-e5c3-7916-b07a-1eef68159e17")
Graph = Any


class State(TypedDict, total=False):
    items: Annotated[list[Any], operator.add]


async def append(state: State) -> State:
    await asyncio.sleep(0)
    return {"items": ["something"]}


def ask(state: State) -> State:
    return {"items": [interrupt("what?")]}


def chain(**nodes: Any) -> Graph:
    graph, last = StateGraph(State), START
    for name, node in nodes.items():
        graph.add_node(name, node)
        graph.add_edge(last, name)
        last = name
    return graph.compile()


INNER = chain(one=append, two=append)
OUTER = chain(inner=INNER, after=append)
QUESTION = chain(before=append, ask=ask, after=append)


async def call_many(state: State) -> State:
    await OUTER.ainvoke({"items": ["first"]})
    await asyncio.gather(*(INNER.ainvoke({"items": [number]}) for number in range(3)))
    return {"items": ["called"]}


def side_by_side() -> Graph:
    graph = StateGraph(State)
    graph.add_node("outer", OUTER)
    graph.add_conditional_edges(START, lambda state: [Send("outer", {"items": [n]}) for n in range(4)], ["outer"])
    return graph.compile()


def leaving_one_behind() -> Graph:
    tasks = []

    async def leave(state: State) -> State:
        tasks.append(asyncio.ensure_future(OUTER.ainvoke({"items": ["left"]})))
        return {"items": ["gone"]}

    async def wait(state: State) -> State:
        await asyncio.gather(*tasks)
        return {}

    return chain(leaves=leave, waits=wait)


GRAPHS: dict[str, Callable[[], Graph]] = {
    "nested": lambda: chain(first=OUTER, second=OUTER),
    "many calls of one node": lambda: chain(calls=call_many, after=OUTER),
    "side by side": side_by_side,
    "left behind by its node": leaving_one_behind,
    "with a question": lambda: chain(question=chain(deep=QUESTION), outer=OUTER),
}


class Run:
    """Turns the stream parts of runs into entries, and these into frames."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph.copy(update={"checkpointer": InMemorySaver()})
        self._seq = 0
        self.full: list[Namespace] = []
        """The namespaces of complete states."""

    async def start(self, graph_input: Any) -> None:
        """Execute one run, with its own normalizer and encoder."""
        normalizer = Normalizer(frozenset({"values"}), {})
        encoder = RunStreamEncoder(StreamOptions(frozenset({"values"}), subgraphs=True))
        config = {"configurable": {"thread_id": "t"}}
        async for ns, mode, part in self._graph.astream(
            graph_input, config, stream_mode=list(RECORDED_MODES), subgraphs=True
        ):
            shown: list[Message] = []
            for draft in normalizer.feed(ns, mode, part, 0):
                self._seq += 1
                entry = Entry(Seq(self._seq), RUN, 1, 0, draft.ns, draft.kind, native(draft.data))
                shown += encoder.feed(entry)
                if entry.kind == Kind.STATE and entry.data.get("full"):
                    self.full.append(ns)
            assert shown == ([_message(ns, part)] if mode == "values" else [])


def _message(ns: Namespace, part: Any) -> Message:
    return "|".join(("values", *ns)).encode(), dumps(part)


@pytest.mark.parametrize("name", GRAPHS)
async def test_every_state_of_every_subgraph_is_streamed_unchanged(name: str) -> None:
    run = Run(GRAPHS[name]())
    await run.start({"items": ["hello"]})
    if name == "with a question":
        await run.start(Command(resume="this"))
    assert any(run.full)


async def test_complete_state_is_stored_once_unless_its_task_had_ended() -> None:
    """spec/log.md, 6.9: otherwise each step of a subgraph would store its complete state."""
    for name in ("nested", "many calls of one node", "side by side"):
        run = Run(GRAPHS[name]())
        await run.start({"items": ["hello"]})
        assert len(run.full) == len(set(run.full))
    left = Run(leaving_one_behind())
    await left.start({"items": ["hello"]})
    assert len(left.full) > len(set(left.full))


class Held:
    """A value of a state."""


async def test_values_of_finished_subgraphs_are_released() -> None:
    values: list[weakref.ref[Held]] = []

    def hold(state: dict[str, Any]) -> dict[str, Any]:
        held = Held()
        values.append(weakref.ref(held))
        return {"held": held}

    class Holding(TypedDict, total=False):
        held: Any

    inner = StateGraph(Holding).add_node("hold", hold).add_edge(START, "hold").compile()

    async def calls(state: State) -> State:
        await inner.ainvoke({})
        return {"items": ["called"]}

    graph = StateGraph(State).add_node("calls", calls).add_edge(START, "calls")
    graph.add_conditional_edges("calls", lambda state: "calls" if len(state["items"]) < 5 else END)
    normalizer = Normalizer(frozenset({"values"}), {})
    async for ns, mode, part in graph.compile().astream({}, stream_mode=list(RECORDED_MODES), subgraphs=True):
        normalizer.feed(ns, mode, part, 0)

    del part
    gc.collect()
    assert len(values) == 5
    assert [each for each in values if each() is not None] == []


def test_line_breaks_in_the_name_of_a_node_do_not_end_the_name_of_a_message() -> None:
    encoder = RunStreamEncoder(StreamOptions(frozenset({"values"}), subgraphs=True))
    state = {"full": True, "set": {}, "keys": []}
    [(name, _)] = encoder.feed(Entry(Seq(1), RUN, 1, 0, ("two\r\nlines:1",), Kind.STATE, state))
    assert name == b"values|two  lines:1"


def test_encoder_memory_does_not_grow_with_the_number_of_subgraphs() -> None:
    encoder = RunStreamEncoder(StreamOptions(frozenset({"values"}), subgraphs=True))
    text = "x" * 100_000

    def call(number: int) -> None:
        ns = (f"calls:{number}",)
        state = {"full": True, "set": {"text": text}, "keys": ["text"]}
        [(_, data)] = encoder.feed(Entry(Seq(2 * number), RUN, 1, 0, ns, Kind.STATE, state))
        assert text.encode() in data
        ended = {"id": str(number), "name": "calls", "ended": True}
        assert encoder.feed(Entry(Seq(2 * number + 1), RUN, 1, 0, (), Kind.TASK, ended)) == ()

    tracemalloc.start()
    try:
        for number in range(100):
            call(number)
        assert tracemalloc.get_traced_memory()[0] < 10 * len(text)
    finally:
        tracemalloc.stop()
