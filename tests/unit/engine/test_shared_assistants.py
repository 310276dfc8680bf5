"""Assistants that two engines on one storage change."""

from collections.abc import AsyncIterator

import pytest

from threadwire.core.ids import assistant_id_of
from threadwire.core.records import Run
from threadwire.engine.assistants import AssistantChange
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.engine.runs import StartRun, run_kwargs
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engines(storage: Storage, registry: GraphRegistry) -> AsyncIterator[tuple[Engine, Engine]]:
    async with (
        open_engine(storage, registry, ProjectPersistence(), shares_storage=True) as one,
        open_engine(storage, registry, ProjectPersistence(), shares_storage=True) as other,
    ):
        yield one, other


async def run_of_graph(engine: Engine) -> Run:
    return await engine.runs.start(StartRun("agent", None, run_kwargs(config={}, input={"n": 1})))


def configuration(run: Run) -> object:
    return run.kwargs["config"]["configurable"].get("tone")


def tone(value: str) -> AssistantChange:
    return AssistantChange(config={"configurable": {"tone": value}})


async def test_runs_by_graph_use_what_another_engine_has_changed(engines: tuple[Engine, Engine]) -> None:
    one, other = engines
    default = assistant_id_of("agent")
    assert configuration(await run_of_graph(other)) is None
    await one.assistants.update(default, tone("warm"))
    assert configuration(await run_of_graph(other)) == "warm"
    await other.assistants.update(default, tone("cold"))
    assert configuration(await run_of_graph(one)) == "cold"
    await one.assistants.set_latest(default, 2)
    assert configuration(await run_of_graph(other)) == "warm"
