import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from agui_checker import AgUiChecker, open_agui_checker
from clients import OPENERS, PROJECT, Sdk
from pages import CopilotKitPage, OpenCopilotKitPage, OpenPage, Page

from threadwire.testing.server import RunningServer, running_server


@pytest.fixture(scope="session")
def project() -> Path:
    return PROJECT


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server on SQLite for all tests. Each test creates its own threads."""
    with running_server(PROJECT, tmp_path_factory.mktemp("server") / "data") as running:
        yield running


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
