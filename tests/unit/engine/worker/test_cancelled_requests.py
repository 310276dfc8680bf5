"""A request cancelled while its change is being committed: the worker is notified nevertheless."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from worker_harness import HOLD_KWARGS, TIMEOUT, ended, is_holding, wait_for_log

from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.records import MultitaskStrategy, Run, RunSelection
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.engine.runs import StartRun, run_kwargs
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage
from threadwire.storage.sqlite import open_sqlite_storage
from threadwire.storage.sqlite.log import SqliteLog
from threadwire.testing.conformance.samples import store_thread

pytestmark = pytest.mark.anyio


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    async with open_sqlite_storage(tmp_path / "data") as storage:
        yield storage


@pytest.fixture
async def engine(storage: Storage, registry: GraphRegistry, gate: "Future[None]") -> AsyncIterator[Engine]:
    async with open_engine(storage, registry, ProjectPersistence()) as engine:
        yield engine


def request_for(graph: str, thread_id: ThreadId, strategy: MultitaskStrategy = "enqueue") -> StartRun:
    kwargs = run_kwargs(config={}, **HOLD_KWARGS)
    return StartRun(graph, thread_id, kwargs, multitask_strategy=strategy, create_thread=True)


async def cancel_during_commit(storage: Storage, request: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Make a request, and cancel it while another writer holds the database."""
    assert isinstance(storage.log, SqliteLog)
    turn = storage.log._writer._db_lock
    await asyncio.to_thread(turn.acquire)
    task = asyncio.create_task(request())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    turn.release()
    await store_thread(storage)  # committed after whatever was requested


async def running(storage: Storage, engine: Engine) -> Run:
    run = await engine.runs.start(request_for("holds", ThreadId(uuid7())))
    await wait_for_log(storage, run, is_holding())
    return run


async def test_an_accepted_run_is_executed(storage: Storage, engine: Engine) -> None:
    thread_id = ThreadId(uuid7())
    await cancel_during_commit(storage, partial(engine.runs.start, request_for("hears", thread_id)))
    [run] = await engine.runs.list(thread_id)
    assert (await ended(storage, run)).data == {"status": "success"}


async def test_an_accepted_run_stops_the_runs_it_interrupts(storage: Storage, engine: Engine) -> None:
    first = await running(storage, engine)
    await cancel_during_commit(storage, partial(engine.runs.start, request_for("hears", first.thread_id, "interrupt")))
    assert (await ended(storage, first)).data["status"] == "interrupted"
    run, _ = await engine.runs.list(first.thread_id)
    assert (await ended(storage, run)).data == {"status": "success"}


@pytest.mark.parametrize("many", [False, True])
async def test_a_cancelled_run_stops(storage: Storage, engine: Engine, many: bool) -> None:
    run = await running(storage, engine)
    if many:
        stop = partial(engine.runs.cancel_many, RunSelection(thread_id=run.thread_id), "interrupt")
    else:
        stop = partial(engine.runs.cancel, run.thread_id, run.run_id, "interrupt", wait=True)
    await cancel_during_commit(storage, stop)
    assert (await ended(storage, run)).data["status"] == "interrupted"


async def test_the_run_of_a_deleted_thread_stops(storage: Storage, engine: Engine) -> None:
    run = await running(storage, engine)
    await cancel_during_commit(storage, partial(engine.threads.delete, run.thread_id))
    with anyio.fail_after(TIMEOUT):
        await engine.worker.wait_until_stopped(run.run_id)
    assert await storage.threads.get(run.thread_id) is None
