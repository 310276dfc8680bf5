import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from agui_checker import AgUiChecker, open_agui_checker
from clients import OPENERS, PROJECT, Sdk
from pages import CopilotKitPage, OpenCopilotKitPage, OpenPage, Page

from services.postgres_server import running_postgres
from services.redis_server import running_redis
from threadwire.testing.server import RunningServer, running_server


@pytest.fixture(scope="session")
def project() -> Path:
    return PROJECT


ON_POSTGRES = os.environ.get("E2E_STORAGE") == "postgres"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On PostgreSQL, leave out the tests that start servers of their own: they would repeat what they do on SQLite."""
    if ON_POSTGRES:
        left_out = [item for item in items if "server" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all tests, on SQLite, or on PostgreSQL and Redis. Each test creates its own threads."""
    with _storage() as env, running_server(PROJECT, tmp_path_factory.mktemp("server") / "data", env=env) as running:
        yield running


@contextmanager
def _storage() -> Iterator[dict[str, str]]:
    if not ON_POSTGRES:
        yield {}
        return
    with running_postgres() as postgres, running_redis() as redis:
        dsn = asyncio.run(postgres.create_database())
        yield {"THREADWIRE_STORAGE": dsn, "THREADWIRE_REDIS": redis.url}


@pytest.fixture(scope="session")
def agui() -> Iterator[AgUiChecker]:
    """The checker of AG-UI streams."""
    with open_agui_checker() as opened:
        yield opened


@pytest.fixture(params=OPENERS)
async def sdk(request: pytest.FixtureRequest, server: RunningServer) -> AsyncIterator[Sdk]:
    async with OPENERS[request.param](server.url) as opened:
        yield opened


@pytest.fixture
async def http(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    """A plain HTTP client, without an SDK."""
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture
def page(http: httpx.AsyncClient, agui: AgUiChecker) -> OpenPage:
    """Opens a page that uses AG-UI."""
    return lambda agent, thread_id=None: Page(http, agui, agent, thread_id)


@pytest.fixture
def copilotkit(http: httpx.AsyncClient, agui: AgUiChecker) -> OpenCopilotKitPage:
    """Opens a page that uses CopilotKit's runtime."""
    return lambda agent, thread_id=None: CopilotKitPage(http, agui, agent, thread_id)


@pytest.fixture
async def agent(sdk: Sdk) -> str:
    """An agent that no other test uses."""
    return (await sdk.assistants.create("chat"))["assistant_id"]


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """The file that the `slow` graphs wait for when it is passed as `until`. It is created when the test ends, if not
    before."""
    path = tmp_path / "gate"
    yield path
    path.touch()


@pytest.fixture
def mark() -> str:
    """A tag that no other test uses."""
    return uuid.uuid4().hex
