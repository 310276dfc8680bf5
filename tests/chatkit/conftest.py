from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from chatkit_client import PROJECT, Chat, OpenChat

from threadwire.testing.server import RunningServer, running_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(PROJECT, tmp_path_factory.mktemp("chatkit") / "data") as running:
        yield running


@pytest.fixture
async def http(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture
def open_chat(http: httpx.AsyncClient) -> OpenChat:
    """Opens a page for an agent, with a new thread or an existing one."""
    return lambda agent, thread_id=None: Chat(http, agent, thread_id)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """The file that `wait` waits for. It is created when the test ends, if not before."""
    path = tmp_path / "gate"
    yield path
    path.touch()
