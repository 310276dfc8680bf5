"""State updates: one at a time, never during a run, and never lost once acknowledged, whatever else happens on the
thread; also with a custom checkpointer."""

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
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.custom_persistence import Provider
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.storage.sqlite import open_sqlite_storage

pytestmark = pytest.mark.anyio

TIMEOUT = 20.0

AGENT = """
import asyncio
import operator
import threading
from concurrent.futures import Future
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph

update_gates, run_gates = [], []


class Gate:
    def __init__(self):
        self.reached, self.open = Future(), Future()

    async def wait(self):
        if not self.reached.done():
            self.reached.set_result(None)
        await asyncio.shield(asyncio.wrap_future(self.open))


serialized_on = set()


class Note(set):
    "Runs code of the project when it is serialized."

    def __iter__(self):
        serialized_on.add(threading.current_thread().name)
        return super().__iter__()


class State(TypedDict, total=False):
    said: Annotated[list[str], operator.add]
    asked: str
    notes: Annotated[set, lambda before, more: Note(more)]


async def say(state):
    for gate in run_gates:
        await gate.wait()
    return {"said": [state["asked"]]}


graph = StateGraph(State).add_node("say", say).add_edge(START, "say").compile()


async def make(config, runtime):
    if runtime.access_context == "threads.update":
        for gate in update_gates:
            await gate.wait()
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
    for gate in (*agent().update_gates, *agent().run_gates):
        open_gate(gate)
    del sys.modules["updated_agent"]


def agent() -> Any:
    return sys.modules["updated_agent"]


def gate_at(gates: str) -> Any:
    """Add a closed gate that blocks updates or runs."""
    gate = agent().Gate()
    getattr(agent(), gates).append(gate)
    return gate


async def reached(gate: Any) -> None:
    await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(gate.reached)), TIMEOUT)


def open_gate(gate: Any) -> None:
    if not gate.open.done():
        gate.open.set_result(None)


class Failing(InMemorySaver):
    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        raise OSError("no")


@asynccontextmanager
async def serving(kind: str, registry: GraphRegistry, folder: Path) -> AsyncIterator[tuple[Storage, Engine]]:
    memory = ProjectPersistence()
    if kind in ("custom", "failing"):
        saver = InMemorySaver() if kind == "custom" else Failing()
        memory = ProjectPersistence(
            saver=Provider("checkpointer", CodeReference("test", "saver"), saver, InMemorySaver)
        )
    opened = open_sqlite_storage(folder / "data") if kind == "sqlite" else open_memory_storage()
    async with opened as storage, open_engine(storage, registry, memory) as engine:
        yield storage, engine


@pytest.fixture(params=["memory", "sqlite", "custom"])
async def served(
    request: pytest.FixtureRequest, registry: GraphRegistry, tmp_path: Path
) -> AsyncIterator[tuple[Storage, Engine]]:
    async with serving(request.param, registry, tmp_path) as served:
        yield served


async def start(engine: Engine, thread_id: ThreadId, text: str) -> Run:
    return await engine.runs.start(StartRun("agent", thread_id, {"input": {"asked": text}}, create_thread=True))


async def thread_with_a_run(engine: Engine) -> ThreadId:
    """A thread on which one run has appended `first`."""
    thread_id = ThreadId(uuid7())
    await engine.runs.outcome(await start(engine, thread_id, "first"))
    return thread_id


async def update(engine: Engine, thread_id: ThreadId, text: str) -> dict[str, Any]:
    with anyio.fail_after(TIMEOUT):
        return await engine.threads.update_state(thread_id, {"said": [text]}, "say", None)


async def said(engine: Engine, thread_id: ThreadId) -> list[str]:
    """The thread's state. Its row must agree, and its history must be linear."""
    history = await engine.threads.history(thread_id, limit=1000)
    parents = [each["parent_checkpoint_id"] for each in history]
    assert parents == [*(each["checkpoint_id"] for each in history[1:]), None]
    values = (await engine.threads.get(thread_id)).values
    assert values["said"] == history[0]["values"]["said"]
    return list(values["said"])


async def test_no_concurrent_update_is_lost(served: tuple[Storage, Engine]) -> None:
    storage, engine = served
    thread_id = await thread_with_a_run(engine)
    texts = [f"update {number}" for number in range(20)]
    moved = await asyncio.gather(*(update(engine, thread_id, text) for text in texts))
    assert sorted((await said(engine, thread_id))[1:]) == sorted(texts)
    history = await engine.threads.history(thread_id, limit=20)
    assert {each["checkpoint_id"] for each in history} == {each["checkpoint_id"] for each in moved}
    resets = [
        entry.data for entry in await storage.log.read(thread_id, START, limit=1000) if entry.kind == Kind.STATE_RESET
    ]
    assert [each["checkpoint_id"] for each in resets] == [each["checkpoint_id"] for each in reversed(history)]


async def test_an_update_is_rejected_if_a_run_starts_while_it_is_prepared(
    served: tuple[Storage, Engine],
) -> None:
    _, engine = served
    thread_id = await thread_with_a_run(engine)
    update_gate, run_gate = gate_at("update_gates"), gate_at("run_gates")
    updating = asyncio.create_task(update(engine, thread_id, "update"))
    await reached(update_gate)
    run = await start(engine, thread_id, "second")
    await reached(run_gate)
    open_gate(update_gate)
    with pytest.raises(Conflict, match=f"has in-flight runs: .*{run.run_id}"):
        await updating
    assert "update" not in [each["metadata"]["source"] for each in await engine.threads.history(thread_id)]
    open_gate(run_gate)
    await engine.runs.outcome(run)
    assert await said(engine, thread_id) == ["first", "second"]
    await update(engine, thread_id, "update")
    assert await said(engine, thread_id) == ["first", "second", "update"]


async def test_an_update_builds_on_a_run_that_started_and_ended_meanwhile(
    served: tuple[Storage, Engine],
) -> None:
    _, engine = served
    thread_id = await thread_with_a_run(engine)
    gate = gate_at("update_gates")
    updating = asyncio.create_task(update(engine, thread_id, "update"))
    await reached(gate)
    await engine.runs.outcome(await start(engine, thread_id, "second"))
    open_gate(gate)
    await updating
    assert await said(engine, thread_id) == ["first", "second", "update"]


async def test_no_acknowledged_run_or_update_is_lost(served: tuple[Storage, Engine]) -> None:
    """Runs and updates in random order at random times: the final state contains each of them once."""
    _, engine = served
    chance = random.Random(7)
    thread_id = await thread_with_a_run(engine)
    acknowledged = ["first"]

    async def work(name: str) -> None:
        for number in range(8):
            text = f"{name} {number}"
            await anyio.sleep(chance.random() / 100)
            if chance.random() < 0.3:
                outcome = await engine.runs.outcome(await start(engine, thread_id, text))
                assert text in outcome["said"]
                acknowledged.append(text)
            else:
                try:
                    await update(engine, thread_id, text)
                except Conflict:
                    continue
                acknowledged.append(text)

    async with anyio.create_task_group() as tasks:
        for name in ("ada", "bob", "cem", "dan"):
            tasks.start_soon(work, name)
    assert sorted(await said(engine, thread_id)) == sorted(acknowledged)


async def test_an_update_is_not_serialized_on_the_api_thread(
    served: tuple[Storage, Engine],
) -> None:
    _, engine = served
    thread_id = await thread_with_a_run(engine)
    await engine.threads.update_state(thread_id, {"notes": ["a"]}, "say", None)
    assert agent().serialized_on
    assert {name.rpartition("-")[0] for name in agent().serialized_on} == {"threadwire"}


async def test_an_error_of_a_custom_checkpointer_is_reported(registry: GraphRegistry, tmp_path: Path) -> None:
    async with serving("failing", registry, tmp_path) as (_, engine):
        thread = await engine.threads.create(None, {"graph_id": "agent"})
        with pytest.raises(StorageError, match="The project's checkpointer failed: OSError: no"):
            await update(engine, thread.thread_id, "update")
