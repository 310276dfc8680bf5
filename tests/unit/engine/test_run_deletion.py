"""Deleting runs in any state."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from threadwire.core.records import Ending
from threadwire.engine.clock import system_clock
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import NOW, accept, start_on_new_thread, store_thread

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(storage: Storage, registry: GraphRegistry) -> AsyncIterator[Engine]:
    async with open_engine(storage, registry, ProjectPersistence()) as engine:
        yield engine


async def test_a_pending_run_is_deleted(storage: Storage, engine: Engine) -> None:
    run = await accept(storage, await store_thread(storage), due_at=system_clock() + 3_600_000)
    await engine.runs.delete(run.thread_id, run.run_id)
    assert await storage.runs.get(run.run_id) is None


async def test_a_run_that_ends_while_it_is_being_deleted_is_deleted(
    storage: Storage, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await start_on_new_thread(storage)
    cancel = storage.runs.cancel

    async def end_first(*args: Any) -> Any:
        await storage.handle(run).finish(Ending("success"), NOW)
        return await cancel(*args)

    monkeypatch.setattr(storage.runs, "cancel", end_first)
    await engine.runs.delete(run.thread_id, run.run_id)
    assert await storage.runs.get(run.run_id) is None
