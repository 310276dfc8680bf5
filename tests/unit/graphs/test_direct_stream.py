"""A run whose parts are received directly records the same as one that reads LangGraph's stream."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from attempts import FakeRecorder, attempt
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore
from langgraph.types import interrupt

from threadwire.core.entries import Draft, Kind
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.json import dumps
from threadwire.core.records import Ending
from threadwire.graphs.execution import Execution
from threadwire.graphs.langgraph_private.direct_stream import DIRECT_STREAM
from threadwire.graphs.user_loop import UserLoop

pytestmark = pytest.mark.every_version

SECONDS = 10
ALL_MODES = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug"]


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.fixture
def loop() -> Iterator[UserLoop]:
    with UserLoop("test") as loop:
        yield loop


@pytest.fixture(params=["direct", "queue"])
def either_way(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "queue":
        DIRECT_STREAM.undo()
    yield
    DIRECT_STREAM.apply()


class Recorder(FakeRecorder):
    def __init__(self) -> None:
        super().__init__()
        self._appended = asyncio.Event()

    def append(self, drafts: Sequence[Draft]) -> None:
        super().append(drafts)
        self._appended.set()

    async def until(self, wanted: Callable[[Draft], bool]) -> None:
        while not any(map(wanted, self.drafts)):
            self._appended.clear()
            await self._appended.wait()


class Run:
    """One run of a graph, with a recorder that the test may control."""

    def __init__(self, graph: Pregel[Any, Any, Any, Any], graph_input: Any = None, **kwargs: Any) -> None:
        self.graph = graph
        self.recorder = Recorder()
        self.saver = InMemorySaver()
        self.thread_id = str(uuid4())
        run = attempt(RunId(str(uuid4())), ThreadId(self.thread_id), input=graph_input or {"messages": []}, **kwargs)
        self._execution = Execution(run, self.recorder)

    async def drive(self) -> Ending:
        async with asyncio.timeout(SECONDS):
            return await self._execution.drive(self.graph, self.saver, InMemoryStore())

    async def task_errors(self) -> list[str | None]:
        state = await self.graph.copy(update={"checkpointer": self.saver}).aget_state(
            {"configurable": {"thread_id": self.thread_id}}
        )
        return [each.error for each in state.tasks]


async def speak(state: State) -> State:
    model = GenericFakeChatModel(messages=iter([AIMessage("to be or not", id="said")]))
    return {"messages": [await model.ainvoke("?")]}


def speak_in_thread(state: State) -> State:
    get_stream_writer()("from a thread")
    model = GenericFakeChatModel(messages=iter([AIMessage("in a thread", id="sync")]))
    return {"messages": [model.invoke("?")]}


@tool
def look(where: str) -> str:
    """Look somewhere."""
    return f"looked {where}"


async def use_tool(state: State) -> State:
    get_stream_writer()({"before": "the tool"})
    await look.ainvoke({"name": "look", "args": {"where": "here"}, "id": "call", "type": "tool_call"})
    return {"messages": [AIMessage("used", id="used")]}


async def ask(state: State) -> State:
    return {"messages": [AIMessage(str(interrupt("sure?")), id="asked")]}


async def fail(state: State) -> State:
    raise ValueError("no")


def chain(*nodes: Callable[[State], Any], within: str | None = None) -> Pregel[Any, Any, Any, Any]:
    builder = StateGraph(State)
    names = [START, *(node.__name__ for node in nodes), END]
    for node in nodes:
        builder.add_node(node.__name__, node)
    for before, after in pairwise(names):
        builder.add_edge(before, after)
    graph = builder.compile()
    return graph if within is None else StateGraph(State).add_node(within, graph).add_edge(START, within).compile()


def side_by_side(*nodes: Callable[[State], Any]) -> Pregel[Any, Any, Any, Any]:
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node).add_edge(START, node.__name__)
    return builder.compile()


GRAPHS = {
    "nodes": chain(speak, use_tool),
    "sync nodes": chain(speak_in_thread, speak),
    "subgraph": chain(speak, use_tool, within="inner"),
    "sync subgraph": chain(speak_in_thread, within="inner"),
    "interrupt": chain(speak, ask),
    "interrupt in subgraph": chain(ask, within="inner"),
    "error": chain(speak, fail),
}


async def record(run: Run) -> None:
    with suppress(ValueError):  # of `fail`
        await run.drive()


VOLATILE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|\d{4}-\d\d-\d\dT[0-9:.+]+")
"""What differs between two runs: ids and times."""


def entries(drafts: Sequence[Draft]) -> list[Any]:
    return [
        (str(draft.kind), len(draft.ns), VOLATILE.sub("…", dumps(draft.data).decode()).split(",")) for draft in drafts
    ]


@pytest.mark.parametrize("modes", [[], ALL_MODES], ids=["no mode", "all modes"])
@pytest.mark.parametrize("name", GRAPHS)
def test_entries_are_the_same(loop: UserLoop, name: str, modes: list[str]) -> None:
    direct, queued = (Run(GRAPHS[name], stream_mode=modes) for _ in range(2))
    loop.run_blocking(lambda: record(direct))
    DIRECT_STREAM.undo()
    try:
        loop.run_blocking(lambda: record(queued))
    finally:
        DIRECT_STREAM.apply()
    assert entries(direct.recorder.drafts) == entries(queued.recorder.drafts)
    assert len(direct.recorder.drafts) > 5


def test_next_step_waits_for_the_disk(loop: UserLoop, either_way: None) -> None:
    started: list[str] = []
    reached, written = asyncio.Event(), asyncio.Event()

    async def first(state: State) -> State:
        started.append("first")
        return {}

    async def second(state: State) -> State:
        started.append("second")
        return {}

    run = Run(chain(first, second))

    async def flush() -> None:
        reached.set()
        await written.wait()

    async def check() -> None:
        run.recorder.flush = flush  # type: ignore[method-assign]
        driving = asyncio.ensure_future(run.drive())
        await reached.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert started == ["first"]
        assert [draft.data["name"] for draft in run.recorder.drafts if draft.kind == Kind.TASK][-1] == "second"
        written.set()
        await driving
        assert started == ["first", "second"]

    loop.run_blocking(check)


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_next_step_waits_for_room(loop: UserLoop, durability: str) -> None:
    """A graph that is faster than the disk does not fill the memory."""
    started: list[int] = []
    waited_after: list[int] = []

    async def first(state: State) -> State:
        started.append(1)
        run.recorder.queue_full = True
        return {}

    async def second(state: State) -> State:
        started.append(2)
        return {}

    run = Run(chain(first, second), durability=durability)

    async def make_room() -> None:
        waited_after.append(len(started))
        run.recorder.queue_full = False

    run.recorder.wait_for_room = run.recorder.flush = make_room  # type: ignore[method-assign]
    loop.run_blocking(run.drive)
    assert waited_after[0] == 1
    assert started == [1, 2]


def test_parts_are_recorded_while_a_node_runs(loop: UserLoop, either_way: None) -> None:
    """Even in a task that another task has started, after a step has ended."""

    @task
    async def talk(word: str, wait: Callable[[], Awaitable[None]] | None) -> str:
        get_stream_writer()(word)
        if wait is not None:
            await wait()
        return word

    run: Run

    async def until_recorded() -> None:
        await run.recorder.until(lambda draft: draft.data == {"value": "second"})

    @entrypoint()
    async def work(_: Any) -> str:
        await talk("first", None)
        await talk("second", until_recorded)
        return "done"

    run = Run(work)
    assert loop.run_blocking(run.drive).status == "success"


class Full(Exception):
    pass


def failing_recorder(kind: Kind) -> FakeRecorder:
    class Failing(FakeRecorder):
        def append(self, drafts: Sequence[Draft]) -> None:
            if any(draft.kind == kind for draft in drafts):
                raise Full
            super().append(drafts)

    return Failing()


@pytest.mark.parametrize("kind", [Kind.CUSTOM, Kind.MESSAGES, Kind.TASK, Kind.UPDATES, Kind.STATE, Kind.CHECKPOINT])
@pytest.mark.parametrize("sync", [False, True], ids=["async node", "sync node"])
def test_failure_to_record_ends_the_run(loop: UserLoop, kind: Kind, sync: bool) -> None:
    run = Run(chain(speak_in_thread if sync else use_tool, speak))
    run._execution._recorder = recorder = failing_recorder(kind)

    async def check() -> None:
        with pytest.raises(Full):
            await run.drive()
        await asyncio.sleep(0)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

    loop.run_blocking(check)
    assert all(draft.kind != kind for draft in recorder.drafts)


def test_failure_to_record_stops_a_running_node(loop: UserLoop) -> None:
    stopped = threading.Event()

    async def wait(state: State) -> State:
        get_stream_writer()("something")
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return {}

    run = Run(chain(wait))
    run._execution._recorder = failing_recorder(Kind.CUSTOM)

    async def check() -> None:
        with pytest.raises(Full):
            await run.drive()

    loop.run_blocking(check)
    assert stopped.is_set()


@pytest.mark.parametrize("nodes", [1, 2])
def test_cancelled_task_is_stored_as_such(loop: UserLoop, either_way: None, nodes: int) -> None:
    started = asyncio.Event()

    async def wait(state: State) -> State:
        started.set()
        await asyncio.sleep(60)
        return {}

    async def other(state: State) -> State:
        return {}

    run = Run(side_by_side(wait, other) if nodes == 2 else chain(other, wait))

    async def check() -> None:
        driving = asyncio.ensure_future(run.drive())
        await started.wait()
        await run.recorder.until(lambda draft: draft.kind == Kind.TASK and "ended" in draft.data)
        recorded = len(run.recorder.drafts)
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving
        assert len(run.recorder.drafts) == recorded
        assert "CancelledError()" in await run.task_errors()

    loop.run_blocking(check)


def test_task_that_outlives_its_run_records_nothing(loop: UserLoop) -> None:
    tasks: list[asyncio.Task[None]] = []

    async def leave_behind(state: State) -> State:
        write = get_stream_writer()

        async def write_later() -> None:
            await ended.wait()
            write("too late")

        tasks.append(asyncio.ensure_future(write_later()))
        return {}

    ended = asyncio.Event()
    run = Run(chain(leave_behind))

    async def check() -> None:
        await run.drive()
        recorded = len(run.recorder.drafts)
        ended.set()
        await tasks[0]
        await asyncio.sleep(0)
        assert len(run.recorder.drafts) == recorded

    loop.run_blocking(check)


def test_graph_that_a_node_streams_has_its_own_stream(loop: UserLoop, either_way: None) -> None:
    """Also one that is not a subgraph, because it has a thread of its own."""
    other = chain(speak).copy(update={"checkpointer": InMemorySaver()})
    parts: list[Any] = []

    async def delegate(state: State) -> State:
        config = {"configurable": {"thread_id": "other"}}
        parts.extend([part async for part in other.astream({"messages": []}, config, stream_mode="updates")])
        return {}

    run = Run(chain(delegate))
    loop.run_blocking(run.drive)
    assert [list(part) for part in parts] == [["speak"]]
    updates = [draft.data for draft in run.recorder.drafts if draft.kind == Kind.UPDATES and not draft.ns]
    assert updates == [{"value": {"delegate": None}}]


def test_astream_of_a_subclass_is_read_as_it_is(loop: UserLoop) -> None:
    class Doubling(type(GRAPHS["nodes"])):  # type: ignore[misc]
        async def astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for ns, mode, part in super().astream(*args, **kwargs):
                yield ns, mode, part
                if mode == "custom":
                    yield ns, mode, part

    graph = GRAPHS["nodes"].copy()
    graph.__class__ = Doubling
    run = Run(graph)
    loop.run_blocking(run.drive)
    assert [draft.data for draft in run.recorder.drafts if draft.kind == Kind.CUSTOM] == 2 * [
        {"value": {"before": "the tool"}}
    ]
