"""The engine restricts every operation of a request to the rows that the caller may access."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from threadwire.core.access_filter import EVERYTHING, AccessFilter, parse_access_filter
from threadwire.core.ids import AssistantId, CronId, RunId, ThreadId, uuid7
from threadwire.core.records import AssistantQuery, Cron, CronQuery, RunSelection, ThreadQuery, Update
from threadwire.core.users import User
from threadwire.engine import access
from threadwire.engine.access import Action, Resource
from threadwire.engine.assistants import AssistantChange, NewAssistant
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.engine.runs import StartRun, run_kwargs
from threadwire.errors import Conflict, NotFound
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage

pytestmark = pytest.mark.anyio

LATER = 3600


class Owner:
    """A caller that owns what it creates, and sees nothing else."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._mine = {"owner": name}
        self.operations: list[str] = []

    async def filter_for(self, user: User, resource: Resource, action: Action, value: dict[str, Any]) -> AccessFilter:
        self.operations.append(f"{resource}.{action}")
        if action in ("create", "create_run"):
            value["metadata"] = {**value["metadata"], **self._mine}
        if resource == "store":
            value["namespace"] = (self._mine["owner"], *(value["namespace"] or ()))
            return EVERYTHING
        return parse_access_filter(self._mine)


def acting_as(owner: Owner) -> AbstractContextManager[None]:
    return access.acting_as(User(identity=owner.name, permissions=[]), owner)


@pytest.fixture
async def engine(storage: Storage, registry: GraphRegistry) -> AsyncIterator[Engine]:
    async with open_engine(storage, registry, ProjectPersistence()) as engine:
        await engine.assistants.ensure_graphs()
        yield engine


ALICE, BOB = Owner("alice"), Owner("bob")


def request(thread_id: ThreadId | None, **fields: Any) -> StartRun:
    return StartRun("agent", thread_id, run_kwargs(config={}, input={"n": 1}), **fields)


async def thread_of(engine: Engine, owner: Owner) -> ThreadId:
    with acting_as(owner):
        return (await engine.threads.create(None, {"graph_id": "agent"})).thread_id


async def run_of(engine: Engine, owner: Owner, thread_id: ThreadId, **fields: Any) -> RunId:
    with acting_as(owner):
        return (await engine.runs.start(request(thread_id, **fields))).run_id


ON_THREADS: dict[str, Callable[[Engine, ThreadId], Awaitable[object]]] = {
    "get": lambda engine, thread_id: engine.threads.get(thread_id),
    "update": lambda engine, thread_id: engine.threads.update(thread_id, {"owner": "alice"}),
    "delete": lambda engine, thread_id: engine.threads.delete(thread_id),
    "sizes": lambda engine, thread_id: engine.threads.sizes(thread_id),
    "note": lambda engine, thread_id: engine.threads.note(thread_id, "test", 1),
    "freeze": lambda engine, thread_id: engine.widgets.freeze(thread_id, engine.widgets.frozen("a", None)),
    "state": lambda engine, thread_id: engine.threads.state(thread_id),
    "history": lambda engine, thread_id: engine.threads.history(thread_id),
    "update_state": lambda engine, thread_id: engine.threads.update_state(thread_id, {"n": 1}, None, None),
    "copy": lambda engine, thread_id: engine.threads_with_history.copy_of(thread_id),
    "runs": lambda engine, thread_id: engine.runs.list(thread_id),
    "start": lambda engine, thread_id: engine.runs.start(request(thread_id)),
    "start_all": lambda engine, thread_id: engine.runs.start_all([request(thread_id)]),
    "start at a checkpoint": lambda engine, thread_id: engine.runs.start(
        StartRun("agent", thread_id, run_kwargs(config={"configurable": {"thread_id": thread_id}}))
    ),
    "cron": lambda engine, thread_id: engine.crons.create(cron(thread_id), "agent"),
}


def cron(thread_id: ThreadId | None = None) -> Cron:
    return Cron(CronId(uuid7()), AssistantId("agent"), "0 0 1 1 *", 0, 0, thread_id=thread_id, kwargs={"config": {}})


@pytest.mark.parametrize("operation", ON_THREADS.values(), ids=ON_THREADS)
async def test_a_foreign_thread_is_rejected_like_an_unknown_one(
    engine: Engine, storage: Storage, operation: Callable[[Engine, ThreadId], Awaitable[object]]
) -> None:
    foreign, unknown = await thread_of(engine, BOB), ThreadId(uuid7())
    before = await storage.threads.get(foreign)
    messages = []
    with acting_as(ALICE):
        for thread_id in (foreign, unknown):
            with pytest.raises(NotFound) as rejected:
                await operation(engine, thread_id)
            messages.append(rejected.value.message.replace(thread_id, ""))
    assert messages[0] == messages[1]
    assert await storage.threads.get(foreign) == before
    assert await storage.log.last(foreign) == 0


async def test_a_run_cannot_create_a_foreign_thread(engine: Engine, storage: Storage) -> None:
    foreign = await thread_of(engine, BOB)
    with acting_as(ALICE), pytest.raises(NotFound):
        await engine.runs.start(request(foreign, create_thread=True))
    assert await storage.runs.list(foreign) == []


@pytest.mark.parametrize("if_exists", ["raise", "do_nothing"])
async def test_a_foreign_thread_cannot_be_created_again(engine: Engine, if_exists: str) -> None:
    foreign = await thread_of(engine, BOB)
    with acting_as(ALICE):
        with pytest.raises(Conflict):
            await engine.threads.create(foreign, {}, if_exists)
        steps = [[Update("one", {"n": 1})]]
        with pytest.raises(Conflict):
            await engine.threads_with_history.from_supersteps(steps, foreign, {"graph_id": "agent"}, if_exists)


async def test_only_own_threads_are_found(engine: Engine) -> None:
    own, foreign = await thread_of(engine, ALICE), await thread_of(engine, BOB)
    with acting_as(ALICE):
        assert [thread.thread_id for thread in await engine.threads.search(ThreadQuery())] == [own]
        assert await engine.threads.count(ThreadQuery()) == 1
        assert await engine.threads.page(ThreadQuery(limit=1)) == ([await engine.threads.get(own)], 1)
        assert await engine.threads.search(ThreadQuery(metadata={"owner": "bob"})) == []
        assert await engine.threads.prune([own, foreign], "delete") == 1
        assert await engine.threads.prune([foreign], "keep_latest") == 0
        await engine.threads.delete_all(ThreadQuery())
    with acting_as(BOB):
        assert await engine.threads.count(ThreadQuery()) == 1


async def test_a_deleted_thread_is_reported_to_no_other_user(engine: Engine) -> None:
    foreign = await thread_of(engine, BOB)
    with acting_as(BOB):
        await engine.threads.delete(foreign)
    with acting_as(ALICE):
        assert not await engine.threads.was_deleted(foreign)


ON_RUNS: dict[str, Callable[[Engine, ThreadId, RunId], Awaitable[object]]] = {
    "get": lambda engine, thread_id, run_id: engine.runs.get(thread_id, run_id),
    "get without a thread": lambda engine, thread_id, run_id: engine.runs.get(None, run_id),
    "delete": lambda engine, thread_id, run_id: engine.runs.delete(thread_id, run_id),
    "cancel": lambda engine, thread_id, run_id: engine.runs.cancel(thread_id, run_id, "interrupt", wait=False),
    "cancel_many": lambda engine, thread_id, run_id: engine.runs.cancel_many(
        RunSelection(thread_id=thread_id, run_ids=(run_id,)), "interrupt"
    ),
    "cancel all": lambda engine, thread_id, run_id: engine.runs.cancel_many(RunSelection(), "rollback"),
}


@pytest.mark.parametrize("operation", ON_RUNS.values(), ids=ON_RUNS)
async def test_a_foreign_run_is_rejected_like_an_unknown_one(
    engine: Engine, storage: Storage, operation: Callable[[Engine, ThreadId, RunId], Awaitable[object]]
) -> None:
    foreign = await thread_of(engine, BOB)
    run_id = await run_of(engine, BOB, foreign, after_seconds=LATER)
    before = await storage.runs.get(run_id)
    messages = []
    with acting_as(ALICE):
        for ids in ((foreign, run_id), (foreign, RunId(uuid7()))):
            with pytest.raises(NotFound) as rejected:
                await operation(engine, *ids)
            messages.append(rejected.value.message)
        assert await engine.runs.active(foreign) is None
        assert await engine.runs.all_active(foreign) == []
    assert messages[0] == messages[1]
    assert await storage.runs.get(run_id) == before


async def test_the_thread_of_a_stateless_run_belongs_to_its_creator(engine: Engine, storage: Storage) -> None:
    with acting_as(ALICE):
        run = await engine.runs.start(request(None, temporary=True))
        await engine.runs.outcome(run)
        assert (await engine.runs.get(None, run.run_id)).metadata["owner"] == "alice"
    with acting_as(BOB), pytest.raises(NotFound):
        await engine.runs.get(None, run.run_id)


async def test_a_run_does_not_change_the_owner_of_its_thread(engine: Engine, storage: Storage) -> None:
    shared = await thread_of(engine, BOB)
    await engine.runs.start(request(shared, after_seconds=LATER))
    thread = await storage.threads.get(shared)
    assert thread is not None
    assert thread.metadata["owner"] == "bob"


async def test_foreign_assistants_do_not_exist(engine: Engine) -> None:
    with acting_as(BOB):
        foreign = await engine.assistants.create(NewAssistant("agent", name="Bob's"))
    with acting_as(ALICE):
        assert await engine.assistants.search(AssistantQuery()) == []
        assert await engine.assistants.count(AssistantQuery()) == 0
        for operation in (
            engine.assistants.get(foreign.assistant_id),
            engine.assistants.resolve(foreign.assistant_id),
            engine.assistants.update(foreign.assistant_id, AssistantChange(name="Mine")),
            engine.assistants.set_latest(foreign.assistant_id, 1),
            engine.assistants.versions(foreign.assistant_id, metadata={}, limit=10, offset=0),
            engine.assistants.delete(foreign.assistant_id, delete_threads=True),
            engine.runs.start(StartRun(foreign.assistant_id, None, run_kwargs(config={}))),
        ):
            with pytest.raises(NotFound):
                await operation
        with pytest.raises(Conflict):
            await engine.assistants.create(NewAssistant("agent", foreign.assistant_id, if_exists="do_nothing"))
    with acting_as(BOB):
        assert await engine.assistants.get(foreign.assistant_id) == foreign


async def test_every_caller_may_run_a_default_assistant_that_no_search_shows(engine: Engine) -> None:
    default = await engine.assistants.of_graph("agent")
    assert default is not None
    with acting_as(ALICE):
        for name in ("agent", default.assistant_id):
            assert await engine.assistants.resolve(name) == default
        assert await engine.assistants.search(AssistantQuery()) == []


async def test_foreign_crons_do_not_exist(engine: Engine) -> None:
    with acting_as(BOB):
        foreign = await engine.crons.create(cron(), "agent")
    with acting_as(ALICE):
        assert await engine.crons.search(CronQuery()) == []
        assert await engine.crons.count(CronQuery()) == 0
        for operation in (
            engine.crons.get(foreign.cron_id),
            engine.crons.update(foreign.cron_id, lambda each: each),
            engine.crons.delete(foreign.cron_id),
        ):
            with pytest.raises(NotFound):
                await operation
    with acting_as(BOB):
        assert [each.metadata["owner"] for each in await engine.crons.search(CronQuery())] == ["bob"]


async def test_namespaces_of_the_store_can_be_private(engine: Engine) -> None:
    with acting_as(BOB):
        await engine.store.put(["notes"], "a", {"n": 1})
    with acting_as(ALICE):
        assert await engine.store.get(["notes"], "a") is None
        assert await engine.store.search(["notes"], filter=None, limit=10) == []
        assert await engine.store.namespaces(prefix=(), limit=10) == []
        await engine.store.delete(["notes"], "a")
    with acting_as(BOB):
        assert (await engine.store.get(["notes"], "a")).value == {"n": 1}
        assert await engine.store.namespaces(prefix=("notes",), limit=10) == [("bob", "notes")]
    assert await engine.store.get(["bob", "notes"], "a") is not None


async def test_a_filter_restricts_searches_of_the_store(engine: Engine) -> None:
    class Filtered(Owner):
        async def filter_for(
            self, user: User, resource: Resource, action: Action, value: dict[str, Any]
        ) -> AccessFilter:
            return parse_access_filter(self._mine)

    for name in ("alice", "bob"):
        await engine.store.put(["notes"], name, {"owner": name})
    with acting_as(Filtered("alice")):
        found = await engine.store.search(["notes"], filter=None, limit=10)
    assert [item.key for item in found] == ["alice"]


async def test_nothing_restricts_the_server_itself(engine: Engine) -> None:
    await thread_of(engine, ALICE)
    await thread_of(engine, BOB)
    assert await engine.threads.count(ThreadQuery()) == 2
