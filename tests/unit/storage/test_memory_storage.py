"""What is the memory driver's own: it holds no more than what is there."""

from collections.abc import AsyncIterator

import pytest

from threadwire.core.records import Ending, Run
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.storage.memory.log import MemoryLog
from threadwire.testing.conformance.samples import NOW, start_on_new_thread, write
from threadwire.testing.conformance.steps import save

pytestmark = pytest.mark.anyio


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


async def wrote(storage: Storage) -> Run:
    """A run that has written on everything it can write on."""
    run = await start_on_new_thread(storage)
    saver = storage.checkpoints.saver(run.fence)
    stored = await save(saver, run.thread_id, run.run_id)
    await saver.aput_writes(stored, [("channel", 1)], "task")
    await write(storage, run, "said")
    return run


def held(storage: Storage) -> dict[str, int]:
    """How much there is of everything."""
    assert isinstance(storage.log, MemoryLog)
    tables = storage.log._tables
    everything = {**vars(tables), "saved": tables.checkpoints.storage, "blobs": tables.checkpoints.blobs}
    return {name: len(part) for name, part in everything.items() if isinstance(part, dict) and part}


@pytest.mark.parametrize("ending", [Ending("success"), Ending("interrupted", rollback=True), None])
async def test_nothing_is_left_of_a_thread_that_is_deleted(storage: Storage, ending: Ending | None) -> None:
    run = await wrote(storage)
    if ending is not None:
        await storage.runs.finish(run.fence, ending, NOW)
    await storage.threads.delete(run.thread_id)
    assert held(storage) == {}


async def test_where_a_run_wrote_is_not_remembered_when_it_can_no_longer_be_rolled_back(storage: Storage) -> None:
    run = await wrote(storage)
    assert held(storage)["writes_of"] == 1
    await storage.runs.finish(run.fence, Ending("success"), NOW)
    assert "writes_of" not in held(storage)
