"""Cached states: the same bytes as long as nothing has changed, and never an old state."""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.ids import Seq, ThreadId, uuid7
from threadwire.engine import state_cache
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.engine.runs import StartRun
from threadwire.engine.state_cache import StateCache, StateKey, StateVersion
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.custom_persistence import Provider
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.storage.memory import open_memory_storage
from threadwire.storage.sqlite import open_sqlite_storage

pytestmark = pytest.mark.anyio

AGENT = """
import asyncio
from concurrent.futures import Future
from typing import TypedDict
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

gate = Future()


class State(TypedDict, total=False):
    n: int
    wait: bool
    ask: bool


async def one(state):
    return {"n": state.get("n", 0) + 1}


async def two(state):
    if state.get("wait"):
        await asyncio.wrap_future(gate)
    return {"n": interrupt("?")} if state.get("ask") else {}


def build():
    return StateGraph(State).add_sequence([one, two]).add_edge(START, "one")


agent, other = build().compile(), build().compile()


def factory():
    return agent
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GraphRegistry]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "cached_agent.py").write_text(AGENT)
    graphs = {"agent": "cached_agent:agent", "other": "cached_agent:other", "factory": "cached_agent:factory"}
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    config = load_config(tmp_path / "langgraph.json")
    prepare_environment(config)
    yield load_registry(config)
    del sys.modules["cached_agent"]


@asynccontextmanager
async def serving(kind: str, registry: GraphRegistry, folder: Path) -> AsyncIterator[Engine]:
    memory = ProjectPersistence()
    if kind == "custom":
        saver = Provider("checkpointer", CodeReference("test", "saver"), InMemorySaver(), InMemorySaver)
        memory = ProjectPersistence(saver=saver)
    opened = open_sqlite_storage(folder / "data") if kind == "sqlite" else open_memory_storage()
    async with opened as storage, open_engine(storage, registry, memory) as engine:
        yield engine


@pytest.fixture(params=["memory", "sqlite"])
async def engine(request: pytest.FixtureRequest, registry: GraphRegistry, tmp_path: Path) -> AsyncIterator[Engine]:
    async with serving(request.param, registry, tmp_path) as engine:
        yield engine


async def new_thread(engine: Engine, graph: str = "agent", **values: Any) -> ThreadId:
    """A thread on which one run has ended."""
    thread = await engine.threads.create(None, {})
    await run(engine, thread.thread_id, graph, **values)
    return thread.thread_id


async def run(engine: Engine, thread_id: ThreadId, graph: str = "agent", **values: Any) -> None:
    await engine.runs.outcome(await engine.runs.start(StartRun(graph, thread_id, {"input": values})))


async def n_of(engine: Engine, thread_id: ThreadId) -> int:
    n: int = (await engine.threads.state(thread_id))["values"]["n"]
    return n


async def test_state_of_an_idle_thread_is_encoded_once(engine: Engine) -> None:
    thread_id = await new_thread(engine)
    first = await engine.threads.encoded_state(thread_id)
    assert await engine.threads.encoded_state(thread_id) is first


async def test_state_of_an_interrupted_thread_is_encoded_once(engine: Engine) -> None:
    thread_id = await new_thread(engine, ask=True)
    first = await engine.threads.encoded_state(thread_id)
    assert json.loads(first)["interrupts"]
    assert await engine.threads.encoded_state(thread_id) is first


async def test_run_changes_the_state(engine: Engine) -> None:
    thread_id = await new_thread(engine)
    assert await n_of(engine, thread_id) == 1
    await run(engine, thread_id)
    assert await n_of(engine, thread_id) == 2


async def test_update_changes_the_state(engine: Engine) -> None:
    thread_id = await new_thread(engine)
    assert await n_of(engine, thread_id) == 1
    await engine.threads.update_state(thread_id, {"n": 7}, None, None)
    assert await n_of(engine, thread_id) == 7


@pytest.mark.needs("langgraph", "1.2.16")
async def test_fork_changes_the_state(engine: Engine) -> None:
    thread_id = await new_thread(engine)
    [*_, first] = await engine.threads.history(thread_id)
    before = await engine.threads.encoded_state(thread_id)
    await engine.threads.update_state(thread_id, {"n": 3}, None, {"checkpoint_id": first["checkpoint_id"]})
    assert await n_of(engine, thread_id) == 3
    assert await engine.threads.encoded_state(thread_id) != before


async def test_states_at_different_checkpoints_are_kept_apart(engine: Engine) -> None:
    thread_id = await new_thread(engine)
    await run(engine, thread_id)
    newest, *_, oldest = await engine.threads.history(thread_id, limit=100)
    for _ in range(2):
        for state in (newest, oldest):
            read = await engine.threads.state(thread_id, {"checkpoint_id": state["checkpoint_id"]})
            assert read["checkpoint_id"] == state["checkpoint_id"]
            assert read["values"] == state["values"]


async def test_state_of_a_thread_that_was_created_again_is_its_own(engine: Engine) -> None:
    thread_id = await new_thread(engine)
    before = await engine.threads.state(thread_id)
    await engine.threads.delete(thread_id)
    await engine.threads.create(thread_id, {})
    await run(engine, thread_id)
    after = await engine.threads.state(thread_id)
    assert after["checkpoint_id"] != before["checkpoint_id"]


async def test_state_is_read_with_the_graph_of_the_thread(engine: Engine) -> None:
    thread_id = await new_thread(engine)
    first = await engine.threads.encoded_state(thread_id)
    await engine.threads.update(thread_id, {"graph_id": "other"})
    assert await engine.threads.encoded_state(thread_id) is not first


async def test_state_is_read_again_after_the_graphs_were_reloaded(engine: Engine, registry: GraphRegistry) -> None:
    thread_id = await new_thread(engine)
    first = await engine.threads.encoded_state(thread_id)
    await engine.use_graphs(registry)
    assert await engine.threads.encoded_state(thread_id) is not first


async def test_state_during_a_run_is_not_cached(engine: Engine) -> None:
    thread_id = (await engine.threads.create(None, {})).thread_id
    started = await engine.runs.start(StartRun("agent", thread_id, {"input": {"wait": True}}))
    first = await engine.threads.encoded_state(thread_id)
    assert await engine.threads.encoded_state(thread_id) is not first
    sys.modules["cached_agent"].gate.set_result(None)
    await engine.runs.outcome(started)
    assert (await engine.threads.state(thread_id))["next"] == []


async def test_state_of_a_graph_from_a_factory_is_not_cached(engine: Engine) -> None:
    thread_id = await new_thread(engine, "factory")
    first = await engine.threads.encoded_state(thread_id)
    assert await engine.threads.encoded_state(thread_id) is not first


async def test_state_in_a_custom_checkpointer_is_not_cached(registry: GraphRegistry, tmp_path: Path) -> None:
    async with serving("custom", registry, tmp_path) as engine:
        thread_id = await new_thread(engine)
        first = await engine.threads.encoded_state(thread_id)
        assert await engine.threads.encoded_state(thread_id) is not first


async def test_state_survives_a_restart(registry: GraphRegistry, tmp_path: Path) -> None:
    async with serving("sqlite", registry, tmp_path) as engine:
        thread_id = await new_thread(engine)
        before = await engine.threads.encoded_state(thread_id)
    async with serving("sqlite", registry, tmp_path) as engine:
        assert await engine.threads.encoded_state(thread_id) == before


# -- the cache itself ------------------------------------------------------------------------------------------------

VERSION = StateVersion(1, Seq(1), "agent", 0)


def key() -> StateKey:
    return StateKey(ThreadId(uuid7()), None)


def test_least_recently_used_states_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_cache, "MAX_CACHED_BYTES", 40_000)
    cache, (used, unused, *others) = StateCache(), [key() for _ in range(5)]
    for each in (used, unused):
        cache.put(each, VERSION, b"x" * 10_000)
    for each in others:
        cache.get(used, VERSION)
        cache.put(each, VERSION, b"x" * 10_000)
    assert cache.get(used, VERSION) is not None
    assert cache.get(unused, VERSION) is None


def test_large_state_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_cache, "MAX_STATE_BYTES", 100)
    cache, large = StateCache(), key()
    cache.put(large, VERSION, b"x")
    cache.put(large, VERSION._replace(last=Seq(2)), b"x" * 101)
    assert cache.get(large, VERSION) is None
    assert cache.get(large, VERSION._replace(last=Seq(2))) is None


def test_forgotten_thread_is_not_cached() -> None:
    cache, forgotten, other = StateCache(), key(), key()
    for each in (forgotten, other):
        cache.put(each, VERSION, b"x")
    cache.forget_thread(forgotten.thread_id)
    assert cache.get(forgotten, VERSION) is None
    assert cache.get(other, VERSION) == b"x"
