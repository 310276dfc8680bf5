"""Copies, and threads made from supersteps: whole or not at all, also with a saver that the project brings."""

from contextlib import asynccontextmanager

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.entries import START
from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.records import ThreadQuery, Ttl, Update
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.expiry import Expiry, ExpirySweeper
from threadwire.engine.follow import Followers
from threadwire.engine.lifecycle import open_engine
from threadwire.engine.runs import StartRun
from threadwire.errors import BadRequest, Conflict
from threadwire.graphs.brought import Brought, BroughtSaver
from threadwire.graphs.memory import Memory
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.source import CodeSource
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import NOW, keep_thread, new_thread_id

pytestmark = pytest.mark.anyio

STEPS = [[Update("__start__", {"n": 1})], [Update("one", {"n": 2})]]


class Able(InMemorySaver):
    """Has what LangGraph's own in-memory saver lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.pruned: list[str] = []

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        for ns, checkpoints in self.storage[source_thread_id].items():
            self.storage[target_thread_id][ns].update(checkpoints)
        for (thread_id, *place), value in list(self.blobs.items()):
            if thread_id == source_thread_id:
                self.blobs[(target_thread_id, *place)] = value  # type: ignore[index]

    async def aprune(self, thread_ids, *, strategy: str = "keep_latest") -> None:
        self.pruned += thread_ids


@asynccontextmanager
async def serving(registry: GraphRegistry, saver: InMemorySaver | None = None):
    memory = Memory()
    if saver is not None:
        memory = Memory(saver=Brought("checkpointer", CodeSource("test", "saver"), saver, InMemorySaver))
    async with open_memory_storage() as storage, open_engine(storage, registry, memory) as engine:
        yield storage, engine


@pytest.fixture(params=["own", "brought"])
def saver(request: pytest.FixtureRequest) -> InMemorySaver | None:
    return Able() if request.param == "brought" else None


async def ran(engine) -> ThreadId:
    thread_id = ThreadId(uuid7())
    run = await engine.runs.start(StartRun("agent", thread_id, {"input": {"n": 4}}, create_thread=True))
    await engine.runs.outcome(run)
    return thread_id


async def test_a_copy_begins_its_log_with_its_state(registry, saver):
    async with serving(registry, saver) as (storage, engine):
        source = await ran(engine)
        copy = await engine.beginnings.copy_of(source)
        newest = (await engine.threads.state(copy.thread_id))["checkpoint_id"]
        assert (copy.values, copy.status) == ({"n": 5}, "idle")
        (entry,) = await storage.log.read(copy.thread_id, START)
        assert entry.data == {"cause": "copy", "checkpoint_id": newest, "values": {"n": 5}}
        assert len(await engine.threads.history(copy.thread_id)) == 3


async def test_a_thread_begins_with_what_supersteps_lead_to(registry, saver):
    async with serving(registry, saver) as (storage, engine):
        made = await engine.beginnings.from_supersteps(STEPS, None, {"graph_id": "agent"})
        assert (made.values, made.status) == ({"n": 2}, "idle")
        (entry,) = await storage.log.read(made.thread_id, START)
        assert (entry.data["cause"], entry.data["values"]) == ("supersteps", {"n": 2})
        assert len(await engine.threads.history(made.thread_id)) == 2


async def test_what_fails_leaves_neither_a_thread_nor_checkpoints(registry, saver):
    async with serving(registry, saver) as (storage, engine):
        chosen = new_thread_id()
        nowhere = [[Update("__start__", {"n": 1})], [Update("nobody", {})]]
        with pytest.raises(BadRequest, match="Node nobody does not exist"):
            await engine.beginnings.from_supersteps(nowhere, chosen, {"graph_id": "agent"})
        assert await storage.threads.count(ThreadQuery()) == 0
        kept = saver or storage.checkpoints.saver()
        assert [found async for found in kept.alist(None)] == []


async def test_one_who_is_too_late_is_refused_and_takes_nothing_away(registry, monkeypatch):
    """Somebody else makes the thread while the updates are being applied."""
    async with serving(registry) as (storage, engine):
        chosen = new_thread_id()
        create = storage.threads.create

        async def late(thread, **options):
            await create(thread)
            return await create(thread, **options)

        monkeypatch.setattr(type(storage.threads), "create", lambda self, *a, **k: late(*a, **k))
        with pytest.raises(Conflict):
            await engine.beginnings.from_supersteps(STEPS, chosen, {"graph_id": "agent"})
        assert await storage.log.last(chosen) == 0
        assert [found async for found in storage.checkpoints.saver().alist(None)] == []
        chosen = new_thread_id()
        existing = await engine.beginnings.from_supersteps(STEPS, chosen, {"graph_id": "agent"}, "do_nothing")
        assert existing.thread_id == chosen


async def test_a_copy_of_a_thread_whose_graph_is_gone_has_what_its_source_settled_on(registry):
    async with serving(registry) as (storage, engine):
        source = await ran(engine)
        await engine.threads.update(source, {"graph_id": "no longer there"})
        copy = await engine.beginnings.copy_of(source)
        assert (copy.values, copy.status) == ({"n": 5}, "idle")
        assert (await storage.checkpoints.newest(copy.thread_id)) == (await storage.checkpoints.newest(source))


async def test_what_the_projects_saver_cannot_do_is_refused(registry):
    async with serving(registry, InMemorySaver()) as (_, engine):
        thread_id = await ran(engine)
        with pytest.raises(BadRequest, match="cannot be copied here: the project's checkpointer has no `acopy_thread`"):
            await engine.beginnings.copy_of(thread_id)
        with pytest.raises(BadRequest, match="cannot be pruned here: the project's checkpointer has no `aprune`"):
            await engine.threads.prune([thread_id], "keep_latest")
        with pytest.raises(BadRequest, match="does not tell what its checkpoints take up"):
            await engine.threads.sizes(thread_id)


async def test_the_projects_saver_is_told_to_prune(registry):
    saver = Able()
    async with serving(registry, saver) as (_, engine):
        thread_id = await ran(engine)
        assert await engine.threads.prune([thread_id, new_thread_id()], "keep_latest") == 1
        assert saver.pruned == [thread_id]


async def test_the_projects_saver_is_told_of_threads_that_expire():
    saver = Able()
    async with open_memory_storage() as storage:
        with UserLoop("test") as loop:
            deleted = await keep_thread(storage, ttl=Ttl(1))
            pruned = await keep_thread(storage, ttl=Ttl(1, "keep_latest"))
            saver.storage[deleted][""]["c"] = (("", b""), ("", b""), None)
            checkpointing = Checkpointing(storage, BroughtSaver(saver, loop))
            sweeper = ExpirySweeper(storage, checkpointing, Followers(storage), Expiry(), lambda: NOW + 60_000)
            assert await sweeper.sweep() == 2
            assert (deleted in saver.storage, saver.pruned) == (False, [pruned])


async def test_threads_do_not_expire_from_a_saver_that_could_not_forget_them():
    class Minimal(InMemorySaver):
        adelete_thread = InMemorySaver.__base__.adelete_thread

    async with open_memory_storage() as storage:
        with UserLoop("test") as loop:
            thread_id = await keep_thread(storage, ttl=Ttl(1))
            checkpointing = Checkpointing(storage, BroughtSaver(Minimal(), loop))
            sweeper = ExpirySweeper(storage, checkpointing, Followers(storage), Expiry(), lambda: NOW + 60_000)
            with pytest.raises(BadRequest, match="has no `adelete_thread`"):
                await sweeper.sweep()
            assert await storage.threads.get(thread_id) is not None
