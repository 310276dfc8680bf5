"""External changes: the project's own code writes to the project's checkpointer, without a run."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.entries import START, Entry, Kind
from threadwire.core.json import loads
from threadwire.engine import external_changes
from threadwire.engine.assistants import NewAssistant
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.engine.runs import StartRun
from threadwire.errors import StorageError
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.config import load_config
from threadwire.graphs.custom_persistence import Provider
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.protocols.ag_ui.connect import Vocabulary
from threadwire.protocols.ag_ui.encode import Options
from threadwire.protocols.timeline.timelines import follow, last_page
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import new_thread_id

pytestmark = pytest.mark.anyio


class Project:
    """A server, and the project's own code: the graph with the checkpointer that both use."""

    def __init__(self, storage: Storage, engine: Engine, registry: GraphRegistry, saver: InMemorySaver) -> None:
        self.storage = storage
        self.engine = engine
        self._registry = registry
        self._saver = saver
        self.thread_id = new_thread_id()
        self.config: Any = {"configurable": {"thread_id": self.thread_id}}

    async def run(self, **kwargs: Any) -> None:
        request = StartRun("agent", self.thread_id, {"input": {"n": 1}, **kwargs}, create_thread=True)
        await self.engine.runs.outcome(await self.engine.runs.start(request))

    async def update_state(self, values: dict[str, int]) -> None:
        async with self._registry.open("agent", {}) as graph:
            await graph.copy(update={"checkpointer": self._saver}).aupdate_state(self.config, values)

    async def invoke(self, values: dict[str, int]) -> None:
        async with self._registry.open("agent", {}) as graph:
            await graph.copy(update={"checkpointer": self._saver}).ainvoke(values, self.config)

    async def log(self) -> list[Entry]:
        return await self.storage.log.read(self.thread_id, START)

    async def recorded(self) -> list[Any]:
        return [each.data for each in await self.log() if each.kind == Kind.STATE_RESET]

    async def connect(self) -> list[dict[str, Any]]:
        joined = await self.engine.joins.until_idle(self.thread_id, Vocabulary(Options("page")))
        assert joined.rest is None
        return events_in(b"".join(joined.first))


def events_in(frames: bytes) -> list[dict[str, Any]]:
    return [loads(line[6:]) for line in frames.split(b"\n") if line.startswith(b"data: ")]


class Saver(InMemorySaver):
    failing = False

    async def aget_tuple(self, config: Any) -> Any:
        if self.failing:
            raise OSError("the database is down")
        return await super().aget_tuple(config)


@pytest.fixture
def saver() -> Saver:
    return Saver()


@pytest.fixture
async def project(storage: Storage, registry: GraphRegistry, saver: Saver) -> AsyncIterator[Project]:
    provider: Provider[Any] = Provider("checkpointer", CodeReference("test", "saver"), saver, InMemorySaver)
    async with open_engine(storage, registry, ProjectPersistence(saver=provider)) as engine:
        yield Project(storage, engine, registry, saver)


@pytest.fixture
async def two_graphs(storage: Storage, registry: GraphRegistry, saver: Saver, tmp_path: Path) -> AsyncIterator[Project]:
    """A project with another graph beside `agent`."""
    graphs = {"other": "./agent.py:graph", "agent": "./agent.py:graph"}
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": graphs}))
    registry.replace_with(load_registry(load_config(tmp_path / "langgraph.json")))
    provider: Provider[Any] = Provider("checkpointer", CodeReference("test", "saver"), saver, InMemorySaver)
    async with open_engine(storage, registry, ProjectPersistence(saver=provider)) as engine:
        yield Project(storage, engine, registry, saver)


def shown_state(events: list[dict[str, Any]]) -> Any:
    return next(each["snapshot"] for each in events if each["type"] == "STATE_SNAPSHOT")


async def test_connect_shows_a_state_that_the_project_updated(project: Project) -> None:
    await project.run()

    await project.update_state({"n": 7})

    events = await project.connect()
    assert [each["type"] for each in events] == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert shown_state(events) == {"n": 7}
    assert (await project.engine.threads.get(project.thread_id)).values == {"n": 7}
    [reset] = await project.recorded()
    assert (reset["cause"], reset["values"], reset["interrupts"]) == ("external", {"n": 7}, [])


async def test_connect_shows_the_result_of_an_invocation_by_the_project(project: Project) -> None:
    await project.run()

    await project.invoke({"n": 40})

    assert shown_state(await project.connect()) == {"n": 41}


@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_what_runs_write_is_not_recorded_again(project: Project, durability: str) -> None:
    for _ in range(2):
        await project.run(durability=durability)
        before = await project.log()

        assert shown_state(await project.connect()) == {"n": 2}

        assert await project.log() == before


async def test_a_change_is_recorded_once(project: Project) -> None:
    await project.run()
    await project.update_state({"n": 7})

    for _ in range(3):
        await project.connect()

    assert len(await project.recorded()) == 1


async def test_an_update_through_the_api_is_not_recorded_again(project: Project) -> None:
    await project.run()
    await project.engine.threads.update_state(project.thread_id, {"n": 5}, None, None)

    await project.connect()

    assert [each["cause"] for each in await project.recorded()] == ["update"]


async def test_a_client_that_follows_the_thread_sees_the_change(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_changes, "POLL", 0.01)
    await project.run()
    follower = await project.engine.joins.forever(project.thread_id, Vocabulary(Options("page")))
    with anyio.fail_after(10), follower:
        await follower.next(5)

        await project.update_state({"n": 7})

        frames: list[bytes] = []
        while not frames:
            frames = await follower.next(5) or []
    events = events_in(b"".join(frames))
    assert [each["type"] for each in events] == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert shown_state(events) == {"n": 7}


async def test_a_timeline_shows_a_state_that_the_project_updated(project: Project) -> None:
    await project.run()
    before = await last_page(project.engine, project.thread_id, 10)

    await project.update_state({"n": 7})

    page = await last_page(project.engine, project.thread_id, 10)
    assert (before["values"], page["values"]) == ({"n": 2}, {"n": 7})
    assert page["seq"] == before["seq"] + 1 == (await project.log())[-1].seq


async def test_a_client_that_follows_a_timeline_sees_the_change(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_changes, "POLL", 0.01)
    await project.run()
    page = await last_page(project.engine, project.thread_id, 10)
    with anyio.fail_after(10), await follow(project.engine, project.thread_id, page["seq"]) as follower:
        await project.update_state({"n": 7})

        frames: list[bytes] = []
        while not frames:
            frames = await follower.next(5) or []
    [message] = events_in(b"".join(frames).replace(b"\r\n", b"\n"))
    assert message["changes"] == [{"change": "values", "set": {"n": 7}}]


async def test_a_thread_that_was_never_run_belongs_to_the_only_graph(project: Project) -> None:
    await project.engine.threads.create(project.thread_id, {})

    await project.update_state({"n": 7})

    assert shown_state(await project.connect()) == {"n": 7}
    assert (await project.engine.threads.get(project.thread_id)).metadata["graph_id"] == "agent"
    assert (await project.engine.threads.state(project.thread_id))["values"] == {"n": 7}


async def test_a_thread_without_checkpoints_belongs_to_no_graph(project: Project) -> None:
    await project.engine.threads.create(project.thread_id, {})

    assert shown_state(await project.connect()) == {}

    assert (await project.engine.threads.get(project.thread_id)).metadata == {}


@pytest.mark.parametrize("named_by", ["thread", "checkpoint", "assistant of the thread", "assistant of the checkpoint"])
async def test_a_thread_that_was_never_run_belongs_to_the_graph_that_is_named(
    two_graphs: Project, named_by: str
) -> None:
    project, assistants = two_graphs, two_graphs.engine.assistants
    names = {"graph_id": "agent"}
    if named_by.startswith("assistant"):
        names = {"assistant_id": (await assistants.create(NewAssistant("agent"))).assistant_id}
    await project.engine.threads.create(project.thread_id, names if named_by.endswith("thread") else {})
    if named_by.endswith("checkpoint"):
        project.config["metadata"] = names

    await project.update_state({"n": 7})

    assert shown_state(await project.connect()) == {"n": 7}


@pytest.mark.parametrize("name", [None, 7, "unknown", "01900000-0000-7000-8000-000000000404"])
async def test_a_thread_whose_graph_cannot_be_found_has_nothing_to_record(two_graphs: Project, name: Any) -> None:
    project = two_graphs
    await project.engine.threads.create(project.thread_id, {})
    if name is not None:
        project.config["metadata"] = {"graph_id": name, "assistant_id": name}

    await project.update_state({"n": 7})

    assert shown_state(await project.connect()) == {}
    assert await project.recorded() == []


async def test_an_error_of_the_checkpointer_is_reported(project: Project, saver: Saver) -> None:
    await project.run()
    saver.failing = True

    with pytest.raises(StorageError, match="the database is down"):
        await project.connect()


async def test_the_built_in_checkpointer_is_not_read(storage: Storage, registry: GraphRegistry) -> None:
    async with open_engine(storage, registry, ProjectPersistence()) as engine:
        project = Project(storage, engine, registry, InMemorySaver())
        await project.run()
        await project.update_state({"n": 7})

        assert shown_state(await project.connect()) == {"n": 2}
