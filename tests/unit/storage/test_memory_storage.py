"""The memory driver must not retain data that was deleted."""

from collections.abc import AsyncIterator

import pytest

from threadwire.core.records import Ending, Run
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.storage.memory.log import MemoryLog
from threadwire.testing.conformance.samples import NOW, start_on_new_thread, write
from threadwire.testing.conformance.saver_calls import save

pytestmark = pytest.mark.anyio


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


async def run_with_writes(storage: Storage) -> Run:
    """Start a run that has written everything a run can write."""
    run = await start_on_new_thread(storage)
    saver = storage.handle(run).saver()
    stored = await save(saver, run.thread_id, run.run_id)
    await saver.aput_writes(stored, [("channel", 1)], "task")
    await write(storage, run, "text")
    return run


def sizes(storage: Storage) -> dict[str, int]:
    """Return the size of every table that is not empty."""
    assert isinstance(storage.log, MemoryLog)
    tables = storage.log._tables
    parts = {**vars(tables), "saved": tables.checkpoints.storage, "blobs": tables.checkpoints.blobs}
    return {name: len(part) for name, part in parts.items() if isinstance(part, dict) and part}


@pytest.mark.parametrize("ending", [Ending("success"), Ending("interrupted", rollback=True), None])
async def test_only_the_id_is_left_of_a_deleted_thread(storage: Storage, ending: Ending | None) -> None:
    run = await run_with_writes(storage)
    if ending is not None:
        await storage.handle(run).finish(ending, NOW)
    await storage.threads.delete(run.thread_id)
    assert sizes(storage) == {"deleted": 1}


async def test_writes_are_forgotten_once_a_run_can_no_longer_be_rolled_back(storage: Storage) -> None:
    run = await run_with_writes(storage)
    assert sizes(storage)["writes_by_run"] == 1
    await storage.handle(run).finish(Ending("success"), NOW)
    assert "writes_by_run" not in sizes(storage)
