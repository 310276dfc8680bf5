"""A saver that the project brings is told what the storage would do by itself."""

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.ids import RunId
from threadwire.core.records import Run
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.lifecycle import open_engine
from threadwire.engine.runs import StartRun
from threadwire.errors import BadRequest, StorageError
from threadwire.graphs.brought import Brought, BroughtSaver
from threadwire.graphs.memory import Memory
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.source import CodeSource
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import NOW, accept, keep_thread, start

pytestmark = pytest.mark.anyio


class Noting(InMemorySaver):
    """Remembers which runs it was told to forget."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: list[str] = []

    async def adelete_for_runs(self, run_ids) -> None:
        self.forgotten += run_ids


@asynccontextmanager
async def serving(storage: Storage, registry: GraphRegistry, saver: InMemorySaver):
    brought = Brought("checkpointer", CodeSource("test", "saver"), saver, InMemorySaver)
    async with open_engine(storage, registry, Memory(saver=brought), clock=lambda: NOW) as engine:
        yield engine


async def test_a_run_that_was_to_be_rolled_back_when_the_process_died_is_forgotten_at_the_start(registry):
    async with open_memory_storage() as storage:
        rolled_back = await start(storage, await keep_thread(storage), graph_id="agent")
        await storage.runs.cancel(rolled_back.run_id, "rollback", NOW)
        interrupted = await start(storage, await keep_thread(storage), graph_id="agent")
        await storage.runs.cancel(interrupted.run_id, "interrupt", NOW)
        saver = Noting()
        async with serving(storage, registry, saver):
            assert saver.forgotten == [rolled_back.run_id]


async def waiting(storage: Storage) -> Run:
    """A run that is not due before the test is over."""
    return await accept(storage, await keep_thread(storage), graph_id="agent", due_at=NOW + 10**9)


async def test_a_waiting_run_that_is_rolled_back_is_forgotten(registry):
    """It may have run before, and been released by a shutdown."""
    async with open_memory_storage() as storage:
        cancelled, pushed_aside = await waiting(storage), await waiting(storage)
        saver = Noting()
        async with serving(storage, registry, saver) as engine:
            await engine.runs.cancel(cancelled.thread_id, cancelled.run_id, "rollback", wait=False)
            assert saver.forgotten == [cancelled.run_id]
            asked = StartRun("agent", pushed_aside.thread_id, {"input": {}}, multitask_strategy="rollback")
            await engine.runs.outcome(await engine.runs.start(asked))
            assert saver.forgotten == [cancelled.run_id, pushed_aside.run_id]


async def test_asking_again_for_the_same_run_takes_nothing_back(registry):
    async with open_memory_storage() as storage:
        saver = Noting()
        async with serving(storage, registry, saver) as engine:
            thread_id = await keep_thread(storage)
            asked = StartRun(
                "agent", thread_id, {}, multitask_strategy="rollback", after_seconds=1000, idempotency_key="k"
            )
            first = await engine.runs.start(asked)
            assert (await engine.runs.start(asked)).run_id == first.run_id
            later = replace(asked, request_digest="d")  # the first is from before they were kept
            assert (await engine.runs.start(later)).run_id == first.run_id
            assert saver.forgotten == []


async def test_a_run_that_is_interrupted_keeps_what_it_saved(registry):
    async with open_memory_storage() as storage:
        run = await waiting(storage)
        saver = Noting()
        async with serving(storage, registry, saver) as engine:
            await engine.runs.cancel(run.thread_id, run.run_id, "interrupt", wait=False)
            assert saver.forgotten == []


@pytest.fixture
def loop() -> Iterator[UserLoop]:
    with UserLoop("test") as loop:
        yield loop


async def test_what_a_saver_cannot_do_is_refused_before_anything_is_done(loop):
    class Minimal(InMemorySaver):
        adelete_thread = InMemorySaver.__base__.adelete_thread

    async with open_memory_storage() as storage:
        checkpointing = Checkpointing(storage, BroughtSaver(Minimal(), loop))
        with pytest.raises(BadRequest, match="has no `adelete_for_runs`"):
            checkpointing.require_rollback()
        with pytest.raises(BadRequest, match="has no `adelete_thread`"):
            checkpointing.require_deletion()
        own = Checkpointing(storage)
        own.require_rollback()
        own.require_deletion()


async def test_a_saver_that_fails_is_a_storage_that_fails(loop):
    class Failing(Noting):
        async def adelete_for_runs(self, run_ids) -> None:
            raise OSError("gone")

    async with open_memory_storage() as storage:
        checkpointing = Checkpointing(storage, BroughtSaver(Failing(), loop))
        with pytest.raises(StorageError, match="The project's checkpointer failed: OSError: gone"):
            await checkpointing.forget_run(RunId("a run"))


async def test_runs_and_reads_meet_the_saver_on_one_loop(registry):
    class OfOneLoop(Noting):
        def __init__(self) -> None:
            super().__init__()
            self.met_on: set[asyncio.AbstractEventLoop] = set()

        async def aget_tuple(self, config):
            self.met_on.add(asyncio.get_running_loop())
            return await super().aget_tuple(config)

    async with open_memory_storage() as storage:
        saver = OfOneLoop()
        async with serving(storage, registry, saver) as engine:
            run = await engine.runs.start(StartRun("agent", await keep_thread(storage), {"input": {}}))
            assert await engine.runs.outcome(run) == {"n": 1}
            assert (await engine.threads.state(run.thread_id))["values"] == {"n": 1}
        assert len(saver.met_on) == 1
