"""A clock that is set back, while the server is running or stopped: no acknowledged write is lost."""

import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from langgraph.checkpoint.base import id as langgraph_ids
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.ids import ThreadId, uuid7
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.engine.runs import StartRun
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.custom_persistence import Provider
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.storage.checkpoint_ids import ID_CLOCK
from threadwire.storage.sqlite import open_sqlite_storage

pytestmark = pytest.mark.anyio

TWO_HOURS_NS = 2 * 3600 * 10**9
TIMEOUT = 20

GRAPHS = """
import asyncio
import operator
from concurrent.futures import Future
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt


GATE = Future()


class State(TypedDict, total=False):
    said: Annotated[list[str], operator.add]


def say(state):
    return {"said": [f"said {len(state.get('said', []))}"]}


async def wait(state):
    await asyncio.shield(asyncio.wrap_future(GATE))
    return {"said": ["waited"]}


def ask(state):
    return {"said": [interrupt("and?")]}


agent = StateGraph(State).add_node("say", say).add_edge(START, "say").compile()
waiting = StateGraph(State).add_node("wait", wait).add_edge(START, "wait").compile()
inner = StateGraph(State).add_sequence([("one", ask), ("two", ask), ("three", ask)]).add_edge(START, "one").compile()
asking = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile()
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GraphRegistry]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "set_back_agent.py").write_text(GRAPHS)
    graphs = {name: f"set_back_agent:{name}" for name in ("agent", "asking", "waiting")}
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    config = load_config(tmp_path / "langgraph.json")
    prepare_environment(config)
    yield load_registry(config)
    del sys.modules["set_back_agent"]


class Process:
    """Each `serving` block acts as a new process for checkpoint ids, with a clock that is ahead or correct."""

    def __init__(self, directory: Path, registry: GraphRegistry, saver: InMemorySaver | None) -> None:
        self._directory = directory
        self._registry = registry
        custom = None if saver is None else Provider("checkpointer", CodeReference("test", "s"), saver, InMemorySaver)
        self._memory = ProjectPersistence(saver=custom)
        self.ahead = 0

    @asynccontextmanager
    async def serving(self, *, ahead: int = 0) -> AsyncIterator[Engine]:
        self.ahead = ahead
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(langgraph_ids, "_last_v6_timestamp", None)
            patch.setattr(ID_CLOCK, "_offset", 0)
            actual = time.time_ns
            patch.setattr(time, "time_ns", lambda: actual() + self.ahead)
            async with (
                open_sqlite_storage(self._directory) as storage,
                open_engine(storage, self._registry, self._memory) as engine,
            ):
                yield engine


@pytest.fixture(params=["storage", "custom"])
def process(tmp_path: Path, registry: GraphRegistry, request: pytest.FixtureRequest) -> Process:
    return Process(tmp_path / "data", registry, InMemorySaver() if request.param == "custom" else None)


def request_for(thread_id: ThreadId, graph: str = "agent", **kwargs: Any) -> StartRun:
    return StartRun(graph, thread_id, {"input": {}, **kwargs}, create_thread=True)


async def run(engine: Engine, thread_id: ThreadId, graph: str = "agent", **kwargs: Any) -> Any:
    return await engine.runs.outcome(await engine.runs.start(request_for(thread_id, graph, **kwargs)))


async def said(engine: Engine, thread_id: ThreadId) -> list[str]:
    state = await engine.threads.state(thread_id)
    thread = await engine.threads.get(thread_id)
    assert state["values"] == thread.values
    return state["values"]["said"]


async def test_runs_and_updates_continue_from_checkpoints_created_while_the_clock_was_ahead(process):
    thread_id = ThreadId(uuid7())
    async with process.serving(ahead=TWO_HOURS_NS) as engine:
        await run(engine, thread_id)
    async with process.serving() as engine:
        await run(engine, thread_id)
        assert await said(engine, thread_id) == ["said 0", "said 1"]
    async with process.serving() as engine:
        await engine.threads.update_state(thread_id, {"said": ["update"]}, "say", None)
        assert await said(engine, thread_id) == ["said 0", "said 1", "update"]
        await run(engine, thread_id)
        assert (await said(engine, thread_id))[2:] == ["update", "said 3"]


async def test_a_fork_of_a_checkpoint_created_while_the_clock_was_ahead_becomes_the_newest(process):
    thread_id = ThreadId(uuid7())
    async with process.serving(ahead=TWO_HOURS_NS) as engine:
        await run(engine, thread_id)
        base = (await engine.threads.state(thread_id))["checkpoint_id"]
        await run(engine, thread_id)
    async with process.serving() as engine:
        await engine.threads.update_state(thread_id, {"said": ["fork"]}, "say", {"checkpoint_id": base})
        assert await said(engine, thread_id) == ["said 0", "fork"]
    async with process.serving() as engine:
        await run(engine, thread_id, config={"configurable": {"checkpoint_id": base}})
        assert await said(engine, thread_id) == ["said 0", "said 1"]


@pytest.mark.parametrize("process", ["storage"], indirect=True)
async def test_a_copy_of_a_thread_created_while_the_clock_was_ahead_can_be_continued(process):
    thread_id = ThreadId(uuid7())
    async with process.serving(ahead=TWO_HOURS_NS) as engine:
        await run(engine, thread_id)
    async with process.serving() as engine:
        copy = (await engine.threads_with_history.copy_of(thread_id)).thread_id
        await run(engine, copy)
        assert await said(engine, copy) == ["said 0", "said 1"]


@pytest.mark.parametrize("process", ["storage"], indirect=True)
async def test_a_subgraph_interrupted_while_the_clock_was_ahead_resumes_from_its_interrupt(process):
    """Its last checkpoint is newer than any checkpoint of the parent graph."""
    thread_id = ThreadId(uuid7())
    async with process.serving(ahead=TWO_HOURS_NS) as engine:
        await run(engine, thread_id, "asking")
    for answer in ("first", "second", "third"):
        async with process.serving() as engine:
            await run(engine, thread_id, "asking", command={"resume": answer})
    async with process.serving() as engine:
        assert await said(engine, thread_id) == ["first", "second", "third"]


@pytest.mark.parametrize("process", ["storage"], indirect=True)
async def test_runs_pending_when_the_clock_is_set_back_start_in_the_order_they_were_accepted(process):
    thread_id = ThreadId(uuid7())
    async with process.serving(ahead=TWO_HOURS_NS) as engine:
        runs = [await engine.runs.start(request_for(thread_id, graph)) for graph in ("waiting", "agent")]
        process.ahead = 0
        runs.append(await engine.runs.start(request_for(thread_id)))
        sys.modules["set_back_agent"].GATE.set_result(None)
        with anyio.fail_after(TIMEOUT):
            for each in runs:
                await engine.runs.outcome(each)
        ended = [(await engine.runs.get(None, each.run_id)).ended_seq for each in runs]
        assert ended == sorted(ended)


@pytest.mark.parametrize("process", ["storage"], indirect=True)
async def test_runs_released_by_a_process_resume_after_the_clock_was_set_back(process):
    thread_id = ThreadId(uuid7())
    async with process.serving(ahead=TWO_HOURS_NS) as engine:
        released, queued = [await engine.runs.start(request_for(thread_id, graph)) for graph in ("waiting", "agent")]
        await engine.worker.drain(0)
    async with process.serving() as engine:
        assert (await engine.runs.active(thread_id)).run_id == released.run_id
        sys.modules["set_back_agent"].GATE.set_result(None)
        with anyio.fail_after(TIMEOUT):
            await engine.runs.outcome(released)
            await engine.runs.outcome(queued)
        assert await said(engine, thread_id) == ["waited", "said 1"]
