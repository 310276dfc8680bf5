from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from threadwire.testing.server import RunningServer, running_server

EXAMPLES = Path(__file__).parents[2] / "examples" / "langgraph.json"
SCRIPTED = {"THREADWIRE_EXAMPLE_DELAY": "0", "THREADWIRE_EXAMPLE_MODEL": "scripted"}
"""The tests need the scripts, even on a machine with an API key."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with the examples. Each test creates its own threads."""
    with running_server(EXAMPLES, tmp_path_factory.mktemp("docs") / "data", env=SCRIPTED) as running:
        yield running


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server with the examples for one test, which may kill it."""
    with running_server(EXAMPLES, tmp_path / "data", env=SCRIPTED) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[SyncLangGraphClient]:
    with get_sync_client(url=server.url) as opened:
        yield opened


@pytest.fixture
def thread_id(client: SyncLangGraphClient) -> Any:
    return client.threads.create()["thread_id"]
