"""Which thread a client connects to."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from threadwire.core.ids import thread_id_from_name
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.errors import Invalid, ThreadNotFound
from threadwire.graphs.config import ProjectConfig
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.protocols.ag_ui.agent_runs import ClientPolicy, UnknownThread, thread_to_connect
from threadwire.protocols.ag_ui.decode import ConnectInput, RunInput
from threadwire.storage.memory import open_memory_storage

pytestmark = pytest.mark.anyio

POLICIES: tuple[UnknownThread, ...] = ("error", "empty")


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    registry = GraphRegistry(ProjectConfig(tmp_path / "langgraph.json", {}), {})
    async with open_memory_storage() as storage, open_engine(storage, registry, ProjectPersistence()) as engine:
        yield engine


def policy(unknown_thread: UnknownThread) -> ClientPolicy:
    return ClientPolicy("test", "reject", unknown_thread)


async def test_an_unknown_thread_is_empty_only_where_clients_choose_the_ids(engine: Engine) -> None:
    assert await thread_to_connect(engine, "new", policy("empty")) == thread_id_from_name("new")
    with pytest.raises(ThreadNotFound, match="Thread 'new' not found"):
        await thread_to_connect(engine, "new", policy("error"))


@pytest.mark.parametrize("unknown_thread", POLICIES)
async def test_a_deleted_thread_is_not_found(engine: Engine, unknown_thread: UnknownThread) -> None:
    thread_id = thread_id_from_name("old")
    await engine.threads.create(thread_id, {})
    assert await thread_to_connect(engine, "old", policy(unknown_thread)) == thread_id

    await engine.threads.delete(thread_id)

    with pytest.raises(ThreadNotFound):
        await thread_to_connect(engine, "old", policy(unknown_thread))


@pytest.mark.parametrize("unknown_thread", POLICIES)
@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256])
async def test_what_cannot_be_an_id_is_not_found(engine: Engine, name: str, unknown_thread: UnknownThread) -> None:
    with pytest.raises(ThreadNotFound):
        await thread_to_connect(engine, name, policy(unknown_thread))


@pytest.mark.parametrize("unknown_thread", POLICIES)
@pytest.mark.parametrize("body", [{}, {"threadId": None}, {"config": {"configurable": {}}}, {"config": 3}], ids=str)
async def test_a_missing_id_is_invalid(engine: Engine, body: object, unknown_thread: UnknownThread) -> None:
    with pytest.raises(Invalid, match="`threadId` is required"):
        await thread_to_connect(engine, ConnectInput.model_validate(body).thread_id, policy(unknown_thread))


@pytest.mark.parametrize("missing", [{}, {"threadId": None}], ids=str)
def test_the_id_may_be_in_the_config_of_the_run(missing: dict[str, None]) -> None:
    config = {"configurable": {"thread_id": "from-config"}}
    assert ConnectInput.model_validate({**missing, "config": config}).thread_id == "from-config"
    assert RunInput.model_validate({**missing, "runId": "r", "config": config}).thread_id == "from-config"


def test_the_thread_id_takes_precedence_over_the_config() -> None:
    config = {"configurable": {"thread_id": "from-config"}}
    assert ConnectInput.model_validate({"threadId": "t", "config": config}).thread_id == "t"
