"""Copies of threads, and threads created from supersteps: complete or not at all, also with a custom checkpointer."""

from contextlib import asynccontextmanager

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.entries import START
from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.records import ThreadQuery, Ttl, Update
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.expiry import Expiry, ExpirySweeper
from threadwire.engine.followers import Followers
from threadwire.engine.lifecycle import open_engine
from threadwire.engine.runs import StartRun
from threadwire.engine.thread_deletions import ThreadDeletions
from threadwire.errors import BadRequest, Conflict
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.custom_persistence import CustomSaver, Provider
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import NOW, new_thread_id, store_thread

pytestmark = pytest.mark.anyio

STEPS = [[Update("__start__", {"n": 1})], [Update("one", {"n": 2})]]


class CapableSaver(InMemorySaver):
    """Adds the methods that LangGraph's in-memory saver lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.pruned: list[str] = []

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        for ns, checkpoints in self.storage[source_thread_id].items():
            self.storage[target_thread_id][ns].update(checkpoints)
        for (thread_id, *rest), value in list(self.blobs.items()):
            if thread_id == source_thread_id:
                self.blobs[(target_thread_id, *rest)] = value  # type: ignore[index]

    async def aprune(self, thread_ids, *, strategy: str = "keep_latest") -> None:
        self.pruned += thread_ids


@asynccontextmanager
async def serving(registry: GraphRegistry, saver: InMemorySaver | None = None):
    memory = ProjectPersistence()
    if saver is not None:
        memory = ProjectPersistence(
            saver=Provider("checkpointer", CodeReference("test", "saver"), saver, InMemorySaver)
        )
    async with open_memory_storage() as storage, open_engine(storage, registry, memory) as engine:
        yield storage, engine


@pytest.fixture(params=["storage", "custom"])
def saver(request: pytest.FixtureRequest) -> InMemorySaver | None:
    return CapableSaver() if request.param == "custom" else None


async def thread_with_a_run(engine) -> ThreadId:
    thread_id = ThreadId(uuid7())
    run = await engine.runs.start(StartRun("agent", thread_id, {"input": {"n": 4}}, create_thread=True))
    await engine.runs.outcome(run)
    return thread_id


async def test_the_log_of_a_copy_starts_with_its_state(registry, saver):
    async with serving(registry, saver) as (storage, engine):
        source = await thread_with_a_run(engine)
        copy = await engine.threads_with_history.copy_of(source)
        newest = (await engine.threads.state(copy.thread_id))["checkpoint_id"]
        assert (copy.values, copy.status) == ({"n": 5}, "idle")
        (entry,) = await storage.log.read(copy.thread_id, START)
        assert entry.data == {"cause": "copy", "checkpoint_id": newest, "values": {"n": 5}, "interrupts": []}
        assert len(await engine.threads.history(copy.thread_id)) == 3


async def test_a_thread_from_supersteps_starts_with_their_final_state(registry, saver):
    async with serving(registry, saver) as (storage, engine):
        created = await engine.threads_with_history.from_supersteps(STEPS, None, {"graph_id": "agent"})
        assert (created.values, created.status) == ({"n": 2}, "idle")
        (entry,) = await storage.log.read(created.thread_id, START)
        assert (entry.data["cause"], entry.data["values"]) == ("supersteps", {"n": 2})
        assert len(await engine.threads.history(created.thread_id)) == 2


async def test_a_failure_leaves_neither_a_thread_nor_checkpoints(registry, saver):
    async with serving(registry, saver) as (storage, engine):
        chosen = new_thread_id()
        invalid = [[Update("__start__", {"n": 1})], [Update("unknown", {})]]
        with pytest.raises(BadRequest, match="Node unknown does not exist"):
            await engine.threads_with_history.from_supersteps(invalid, chosen, {"graph_id": "agent"})
        assert await storage.threads.count(ThreadQuery()) == 0
        used_saver = saver or storage.checkpoints.saver()
        assert [found async for found in used_saver.alist(None)] == []


async def test_a_concurrent_creation_raises_a_conflict_and_leaves_the_other_thread_intact(registry, monkeypatch):
    """Another request creates the thread while the updates are being applied."""
    async with serving(registry) as (storage, engine):
        chosen = new_thread_id()
        create = storage.threads.create

        async def create_twice(thread, **options):
            await create(thread)
            return await create(thread, **options)

        monkeypatch.setattr(type(storage.threads), "create", lambda self, *a, **k: create_twice(*a, **k))
        with pytest.raises(Conflict):
            await engine.threads_with_history.from_supersteps(STEPS, chosen, {"graph_id": "agent"})
        assert await storage.log.last(chosen) == 0
        assert [found async for found in storage.checkpoints.saver().alist(None)] == []
        chosen = new_thread_id()
        existing = await engine.threads_with_history.from_supersteps(STEPS, chosen, {"graph_id": "agent"}, "do_nothing")
        assert existing.thread_id == chosen


async def test_a_copy_of_a_thread_whose_graph_was_removed_has_the_last_stored_state(registry):
    async with serving(registry) as (storage, engine):
        source = await thread_with_a_run(engine)
        await engine.threads.update(source, {"graph_id": "removed"})
        copy = await engine.threads_with_history.copy_of(source)
        assert (copy.values, copy.status) == ({"n": 5}, "idle")
        assert (await storage.checkpoints.newest(copy.thread_id)) == (await storage.checkpoints.newest(source))


async def test_operations_the_custom_checkpointer_lacks_are_rejected(registry):
    async with serving(registry, InMemorySaver()) as (_, engine):
        thread_id = await thread_with_a_run(engine)
        with pytest.raises(BadRequest, match="cannot be copied: the project's checkpointer has no `acopy_thread`"):
            await engine.threads_with_history.copy_of(thread_id)
        with pytest.raises(BadRequest, match="cannot be pruned: the project's checkpointer has no `aprune`"):
            await engine.threads.prune([thread_id], "keep_latest")
        with pytest.raises(BadRequest, match="does not report the size of its checkpoints"):
            await engine.threads.sizes(thread_id)


async def test_a_custom_checkpointer_is_pruned(registry):
    saver = CapableSaver()
    async with serving(registry, saver) as (_, engine):
        thread_id = await thread_with_a_run(engine)
        assert await engine.threads.prune([thread_id, new_thread_id()], "keep_latest") == 1
        assert saver.pruned == [thread_id]


async def test_expired_threads_are_deleted_from_a_custom_checkpointer():
    saver = CapableSaver()
    async with open_memory_storage() as storage:
        with UserLoop("test") as loop:
            deleted = await store_thread(storage, ttl=Ttl(1))
            pruned = await store_thread(storage, ttl=Ttl(1, "keep_latest"))
            saver.storage[deleted][""]["c"] = (("", b""), ("", b""), None)
            assert await sweeper_of(storage, ThreadCheckpoints(storage, CustomSaver(saver, loop))).sweep() == 2
            assert (deleted in saver.storage, saver.pruned) == (False, [pruned])


class CannotDelete(CapableSaver):
    adelete_thread = InMemorySaver.__base__.adelete_thread


@pytest.mark.parametrize(
    ("saver", "strategy", "missing"),
    [(CannotDelete(), "delete", "adelete_thread"), (InMemorySaver(), "keep_latest", "aprune")],
)
async def test_threads_do_not_expire_if_the_custom_checkpointer_cannot_do_it(saver, strategy, missing):
    async with open_memory_storage() as storage:
        with UserLoop("test") as loop:
            thread_id = await store_thread(storage, ttl=Ttl(1, strategy))
            checkpoints = ThreadCheckpoints(storage, CustomSaver(saver, loop))
            with pytest.raises(BadRequest, match=f"has no `{missing}`"):
                await sweeper_of(storage, checkpoints).sweep()
            assert (await storage.threads.get(thread_id)).ttl == Ttl(1, strategy)


async def test_threads_are_pruned_by_a_custom_checkpointer_that_cannot_delete_others():
    saver = CannotDelete()
    async with open_memory_storage() as storage:
        with UserLoop("test") as loop:
            await store_thread(storage, ttl=Ttl(0.5))  # due before the other
            thread_id = await store_thread(storage, ttl=Ttl(1, "keep_latest"))
            with pytest.raises(BadRequest, match="has no `adelete_thread`"):
                await sweeper_of(storage, ThreadCheckpoints(storage, CustomSaver(saver, loop))).sweep()
            assert saver.pruned == [thread_id]


def sweeper_of(storage: Storage, checkpoints: ThreadCheckpoints) -> ExpirySweeper:
    return ExpirySweeper(storage, checkpoints, Followers(storage), ThreadDeletions(), Expiry(), lambda: NOW + 60_000)
