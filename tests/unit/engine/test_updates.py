"""Updates of a state: one at a time, never inside a run, and kept once they are acknowledged; whoever else is at work
on the thread, and also with a saver that the project brings."""

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.entries import START, Kind
from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.records import Run
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.engine.runs import StartRun
from threadwire.errors import Conflict, StorageError
from threadwire.graphs.brought import Brought
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.memory import Memory
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.graphs.source import CodeSource
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.storage.sqlite import open_sqlite_storage

pytestmark = pytest.mark.anyio

SOON = 20.0

AGENT = """
import asyncio
import operator
import threading
from concurrent.futures import Future
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph

at_the_update, at_the_run = [], []


class Gate:
    def __init__(self):
        self.reached, self.open = Future(), Future()

    async def passed(self):
        if not self.reached.done():
            self.reached.set_result(None)
        await asyncio.shield(asyncio.wrap_future(self.open))


serialised_on = set()


class Note(set):
    "Runs code of the project's when it is serialised."

    def __iter__(self):
        serialised_on.add(threading.current_thread().name)
        return super().__iter__()


class State(TypedDict, total=False):
    said: Annotated[list[str], operator.add]
    asked: str
    noted: Annotated[set, lambda before, more: Note(more)]


async def say(state):
    for gate in at_the_run:
        await gate.passed()
    return {"said": [state["asked"]]}


graph = StateGraph(State).add_node("say", say).add_edge(START, "say").compile()


async def make(config, runtime):
    if runtime.access_context == "threads.update":
        for gate in at_the_update:
            await gate.passed()
    return graph
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GraphRegistry]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "updated_agent.py").write_text(AGENT)
    (tmp_path / "langgraph.json").write_text(
        json.dumps({"dependencies": ["."], "graphs": {"agent": "updated_agent:make"}})
    )
    config = load_config(tmp_path / "langgraph.json")
    prepare_environment(config)
    yield load_registry(config)
    for gate in (*agent().at_the_update, *agent().at_the_run):
        open_gate(gate)
    del sys.modules["updated_agent"]


def agent() -> Any:
    return sys.modules["updated_agent"]


def gate_at(place: str) -> Any:
    """A gate that updates, or runs, do not pass before it is opened."""
    gate = agent().Gate()
    getattr(agent(), place).append(gate)
    return gate


async def reached(gate: Any) -> None:
    await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(gate.reached)), SOON)


def open_gate(gate: Any) -> None:
    if not gate.open.done():
        gate.open.set_result(None)


class Failing(InMemorySaver):
    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        raise OSError("no")


@asynccontextmanager
async def serving(kind: str, registry: GraphRegistry, folder: Path) -> AsyncIterator[tuple[Storage, Engine]]:
    memory = Memory()
    if kind in ("brought", "failing"):
        saver = InMemorySaver() if kind == "brought" else Failing()
        memory = Memory(saver=Brought("checkpointer", CodeSource("test", "saver"), saver, InMemorySaver))
    opened = open_sqlite_storage(folder / "data") if kind == "sqlite" else open_memory_storage()
    async with opened as storage, open_engine(storage, registry, memory) as engine:
        yield storage, engine


@pytest.fixture(params=["memory", "sqlite", "brought"])
async def served(
    request: pytest.FixtureRequest, registry: GraphRegistry, tmp_path: Path
) -> AsyncIterator[tuple[Storage, Engine]]:
    async with serving(request.param, registry, tmp_path) as served:
        yield served


async def start(engine: Engine, thread_id: ThreadId, text: str) -> Run:
    return await engine.runs.start(StartRun("agent", thread_id, {"input": {"asked": text}}, create_thread=True))


async def talked(engine: Engine) -> ThreadId:
    """A thread on which a run said `first`."""
    thread_id = ThreadId(uuid7())
    await engine.runs.outcome(await start(engine, thread_id, "first"))
    return thread_id


async def update(engine: Engine, thread_id: ThreadId, text: str) -> dict[str, Any]:
    with anyio.fail_after(SOON):
        return await engine.threads.update_state(thread_id, {"said": [text]}, "say", None)


async def said(engine: Engine, thread_id: ThreadId) -> list[str]:
    """What the thread's state holds; its row must agree, and its history be one line."""
    history = await engine.threads.history(thread_id, limit=1000)
    parents = [each["parent_checkpoint_id"] for each in history]
    assert parents == [*(each["checkpoint_id"] for each in history[1:]), None]
    values = (await engine.threads.get(thread_id)).values
    assert values["said"] == history[0]["values"]["said"]
    return list(values["said"])


async def test_updates_at_the_same_time_are_all_kept(served: tuple[Storage, Engine]) -> None:
    storage, engine = served
    thread_id = await talked(engine)
    texts = [f"update {number}" for number in range(20)]
    moved = await asyncio.gather(*(update(engine, thread_id, text) for text in texts))
    assert sorted((await said(engine, thread_id))[1:]) == sorted(texts)
    history = await engine.threads.history(thread_id, limit=20)
    assert {each["checkpoint_id"] for each in history} == {each["checkpoint_id"] for each in moved}
    resets = [
        entry.data for entry in await storage.log.read(thread_id, START, limit=1000) if entry.kind == Kind.STATE_RESET
    ]
    assert [each["checkpoint_id"] for each in resets] == [each["checkpoint_id"] for each in reversed(history)]


async def test_an_update_is_refused_during_a_run_that_began_while_it_was_thought_over(
    served: tuple[Storage, Engine],
) -> None:
    _, engine = served
    thread_id = await talked(engine)
    at_the_update, at_the_run = gate_at("at_the_update"), gate_at("at_the_run")
    updating = asyncio.create_task(update(engine, thread_id, "update"))
    await reached(at_the_update)
    run = await start(engine, thread_id, "second")
    await reached(at_the_run)
    open_gate(at_the_update)
    with pytest.raises(Conflict, match=f"has in-flight runs: .*{run.run_id}"):
        await updating
    assert "update" not in [each["metadata"]["source"] for each in await engine.threads.history(thread_id)]
    open_gate(at_the_run)
    await engine.runs.outcome(run)
    assert await said(engine, thread_id) == ["first", "second"]
    await update(engine, thread_id, "update")
    assert await said(engine, thread_id) == ["first", "second", "update"]


async def test_an_update_goes_on_from_what_a_run_left_that_came_and_went_meanwhile(
    served: tuple[Storage, Engine],
) -> None:
    _, engine = served
    thread_id = await talked(engine)
    gate = gate_at("at_the_update")
    updating = asyncio.create_task(update(engine, thread_id, "update"))
    await reached(gate)
    await engine.runs.outcome(await start(engine, thread_id, "second"))
    open_gate(gate)
    await updating
    assert await said(engine, thread_id) == ["first", "second", "update"]


async def test_whatever_is_acknowledged_is_kept_whoever_else_is_at_work(served: tuple[Storage, Engine]) -> None:
    """Runs and updates in random order and at random moments; the final state has each of them once."""
    _, engine = served
    chance = random.Random(7)
    thread_id = await talked(engine)
    kept = ["first"]

    async def work(name: str) -> None:
        for number in range(8):
            text = f"{name} {number}"
            await anyio.sleep(chance.random() / 100)
            if chance.random() < 0.3:
                outcome = await engine.runs.outcome(await start(engine, thread_id, text))
                assert text in outcome["said"]
                kept.append(text)
            else:
                try:
                    await update(engine, thread_id, text)
                except Conflict:
                    continue
                kept.append(text)

    async with anyio.create_task_group() as tasks:
        for name in ("ada", "bob", "cem", "dan"):
            tasks.start_soon(work, name)
    assert sorted(await said(engine, thread_id)) == sorted(kept)


async def test_what_an_update_keeps_is_not_serialised_where_requests_are_answered(
    served: tuple[Storage, Engine],
) -> None:
    _, engine = served
    thread_id = await talked(engine)
    await engine.threads.update_state(thread_id, {"noted": ["a"]}, "say", None)
    assert agent().serialised_on
    assert {name.rpartition("-")[0] for name in agent().serialised_on} == {"threadwire"}


async def test_a_checkpointer_of_the_project_that_fails_is_told(registry: GraphRegistry, tmp_path: Path) -> None:
    async with serving("failing", registry, tmp_path) as (_, engine):
        thread = await engine.threads.create(None, {"graph_id": "agent"})
        with pytest.raises(StorageError, match="The project's checkpointer failed: OSError: no"):
            await update(engine, thread.thread_id, "update")
