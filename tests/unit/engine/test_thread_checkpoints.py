"""A custom checkpointer is called for every change that the storage applies to its own checkpoints."""

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from structlog.testing import capture_logs

from threadwire.core.ids import RunId
from threadwire.core.records import Run
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.lifecycle import open_engine
from threadwire.engine.runs import StartRun
from threadwire.errors import BadRequest, StorageError
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.custom_persistence import CustomSaver, Provider
from threadwire.graphs.error_messages import HIDDEN, ErrorMessages
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import NOW, accept, start, store_thread

pytestmark = pytest.mark.anyio


class RecordingSaver(InMemorySaver):
    """Records the runs whose checkpoints it was asked to delete."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[str] = []

    async def adelete_for_runs(self, run_ids) -> None:
        self.deleted += run_ids


@asynccontextmanager
async def serving(storage: Storage, registry: GraphRegistry, saver: InMemorySaver):
    custom = Provider("checkpointer", CodeReference("test", "saver"), saver, InMemorySaver)
    async with open_engine(storage, registry, ProjectPersistence(saver=custom), clock=lambda: NOW) as engine:
        yield engine


async def test_checkpoints_of_a_run_being_rolled_back_at_a_crash_are_deleted_at_startup(registry):
    async with open_memory_storage() as storage:
        rolled_back = await start(storage, await store_thread(storage), graph_id="agent")
        await storage.runs.cancel(rolled_back.run_id, "rollback", NOW)
        interrupted = await start(storage, await store_thread(storage), graph_id="agent")
        await storage.runs.cancel(interrupted.run_id, "interrupt", NOW)
        saver = RecordingSaver()
        async with serving(storage, registry, saver):
            assert saver.deleted == [rolled_back.run_id]


async def delayed_run(storage: Storage) -> Run:
    """A run that is not due before the test ends."""
    return await accept(storage, await store_thread(storage), graph_id="agent", due_at=NOW + 10**9)


async def test_checkpoints_of_a_pending_run_that_is_rolled_back_are_deleted(registry):
    """It may have been running before a shutdown released it."""
    async with open_memory_storage() as storage:
        cancelled, replaced = await delayed_run(storage), await delayed_run(storage)
        saver = RecordingSaver()
        async with serving(storage, registry, saver) as engine:
            await engine.runs.cancel(cancelled.thread_id, cancelled.run_id, "rollback", wait=False)
            assert saver.deleted == [cancelled.run_id]
            request = StartRun("agent", replaced.thread_id, {"input": {}}, multitask_strategy="rollback")
            await engine.runs.outcome(await engine.runs.start(request))
            assert saver.deleted == [cancelled.run_id, replaced.run_id]


async def test_repeating_an_idempotent_request_deletes_no_checkpoints(registry):
    async with open_memory_storage() as storage:
        saver = RecordingSaver()
        async with serving(storage, registry, saver) as engine:
            thread_id = await store_thread(storage)
            request = StartRun(
                "agent", thread_id, {}, multitask_strategy="rollback", after_seconds=1000, idempotency_key="k"
            )
            first = await engine.runs.start(request)
            assert (await engine.runs.start(request)).run_id == first.run_id
            later = replace(request, request_digest="d")  # the first was stored before digests were
            assert (await engine.runs.start(later)).run_id == first.run_id
            assert saver.deleted == []


async def test_an_interrupted_run_keeps_its_checkpoints(registry):
    async with open_memory_storage() as storage:
        run = await delayed_run(storage)
        saver = RecordingSaver()
        async with serving(storage, registry, saver) as engine:
            await engine.runs.cancel(run.thread_id, run.run_id, "interrupt", wait=False)
            assert saver.deleted == []


@pytest.fixture
def loop() -> Iterator[UserLoop]:
    with UserLoop("test") as loop:
        yield loop


async def test_unsupported_operations_are_rejected_in_advance(loop):
    class Minimal(InMemorySaver):
        adelete_thread = InMemorySaver.__base__.adelete_thread

    async with open_memory_storage() as storage:
        checkpoints = ThreadCheckpoints(storage, CustomSaver(Minimal(), loop))
        with pytest.raises(BadRequest, match="has no `adelete_for_runs`"):
            checkpoints.require_rollback()
        with pytest.raises(BadRequest, match="has no `adelete_thread`"):
            checkpoints.require_deletion()
        builtin = ThreadCheckpoints(storage)
        builtin.require_rollback()
        builtin.require_deletion()


async def test_an_error_of_a_custom_checkpointer_is_a_storage_error(loop):
    class Failing(RecordingSaver):
        async def adelete_for_runs(self, run_ids) -> None:
            raise OSError("unreachable")

    async with open_memory_storage() as storage:
        checkpoints = ThreadCheckpoints(storage, CustomSaver(Failing(), loop))
        with pytest.raises(StorageError, match="The project's checkpointer failed: OSError: unreachable"):
            await checkpoints.forget_run(RunId("a run"))


async def test_the_message_of_a_custom_checkpointer_is_hidden_behind_an_id_that_the_log_has(loop):
    class Failing(RecordingSaver):
        async def adelete_for_runs(self, run_ids) -> None:
            raise ConnectionRefusedError("postgres://user:secret@db")

    async with open_memory_storage() as storage:
        checkpoints = ThreadCheckpoints(storage, CustomSaver(Failing(), loop), ErrorMessages(frozenset()))
        with capture_logs() as logs, pytest.raises(StorageError, match=rf"{HIDDEN} \(id (\w+)\)$") as raised:
            await checkpoints.forget_run(RunId("a run"))
        [entry] = logs
        assert "secret" not in raised.value.message
        assert (entry["event"], entry["error_id"] in raised.value.message) == ("checkpointer_failed", True)
        assert "postgres://user:secret@db" in entry["stack"]


async def test_runs_and_reads_use_a_custom_checkpointer_on_one_loop(registry):
    class LoopRecordingSaver(RecordingSaver):
        def __init__(self) -> None:
            super().__init__()
            self.loops: set[asyncio.AbstractEventLoop] = set()

        async def aget_tuple(self, config):
            self.loops.add(asyncio.get_running_loop())
            return await super().aget_tuple(config)

    async with open_memory_storage() as storage:
        saver = LoopRecordingSaver()
        async with serving(storage, registry, saver) as engine:
            run = await engine.runs.start(StartRun("agent", await store_thread(storage), {"input": {}}))
            assert await engine.runs.outcome(run) == {"n": 1}
            assert (await engine.threads.state(run.thread_id))["values"] == {"n": 1}
        assert len(saver.loops) == 1
