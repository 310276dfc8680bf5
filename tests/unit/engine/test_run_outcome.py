"""Waiting for a run whose thread is deleted: the wait ends immediately."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from threadwire.core.entries import Draft, Kind
from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.records import Run
from threadwire.engine import run_outcome
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.engine.runs import StartRun
from threadwire.graphs.config import load_config
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import load_registry
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.storage.sqlite import open_sqlite_storage

pytestmark = pytest.mark.anyio

GRAPH = """
from langgraph.graph import START, StateGraph
graph = StateGraph(dict).add_node("node", lambda state: state).add_edge(START, "node").compile()
"""
DELETED = {"__error__": {"error": "NotFound", "message": "The thread was deleted."}}


@pytest.fixture(params=["memory", "sqlite"])
async def served(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Storage, Engine]]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(run_outcome, "POLL", 3600.0)  # polling is not under test
    (tmp_path / "agent.py").write_text(GRAPH)
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"agent": "./agent.py:graph"}}))
    opened = open_sqlite_storage(tmp_path / "data") if request.param == "sqlite" else open_memory_storage()
    registry = load_registry(load_config(tmp_path / "langgraph.json"))
    async with opened as storage, open_engine(storage, registry, ProjectPersistence()) as engine:
        yield storage, engine
    for name in [name for name in sys.modules if name.startswith("threadwire_graphs_")]:
        del sys.modules[name]


async def delayed_run(engine: Engine) -> Run:
    """A run that does not start during the test."""
    request = StartRun("agent", ThreadId(uuid7()), {"input": {}}, create_thread=True, after_seconds=3600)
    return await engine.runs.start(request)


@asynccontextmanager
async def waiting(engine: Engine, run: Run) -> AsyncIterator["asyncio.Task[object]"]:
    with anyio.fail_after(20):
        task = asyncio.create_task(engine.runs.outcome(run))
        await anyio.wait_all_tasks_blocked()
        yield task
        await task


async def test_deleting_the_thread_ends_the_wait(served: tuple[Storage, Engine]) -> None:
    _, engine = served
    run = await delayed_run(engine)
    async with waiting(engine, run) as outcome:
        await engine.threads.delete(run.thread_id)
        assert await outcome == DELETED


async def test_a_thread_created_again_under_the_same_id_is_another_thread(served: tuple[Storage, Engine]) -> None:
    _, engine = served
    run = await delayed_run(engine)
    async with waiting(engine, run) as outcome:
        await engine.threads.delete(run.thread_id)
        await engine.threads.create(run.thread_id, {})
        assert await outcome == DELETED


async def test_unrelated_entries_do_not_end_the_wait(served: tuple[Storage, Engine]) -> None:
    storage, engine = served
    run = await delayed_run(engine)
    async with waiting(engine, run) as outcome:
        for number in range(3):
            await storage.log.append(run.thread_id, [Draft(Kind.CUSTOM, {"value": number})]).wait()
            await anyio.wait_all_tasks_blocked()
        assert not outcome.done()
        await engine.runs.cancel(run.thread_id, run.run_id, "rollback", wait=False)
        assert await outcome == {}
