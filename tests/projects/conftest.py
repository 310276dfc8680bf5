"""Projects shaped like real ones, each on the stock server and on Threadwire.

A test module names its project; the module's tests then run once per server, with the same assertions.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from stock_server import stock_server
from threadwire.testing.server import running_server

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses of both servers, each with the project of the test's module."""
    folder = tmp_path_factory.mktemp(request.module.PROJECT)
    # The stock server writes into its project.
    project = shutil.copytree(HERE / request.module.PROJECT, folder / "project") / "langgraph.json"
    with stock_server(project, folder / "log") as stock, running_server(project, folder / "data") as threadwire:
        yield {"stock": stock, "threadwire": threadwire.url}


@pytest.fixture(params=["stock", "threadwire"])
def url(request: pytest.FixtureRequest, servers: dict[str, str]) -> str:
    return servers[request.param]


@pytest.fixture
def client(url: str) -> Iterator[SyncLangGraphClient]:
    client = get_sync_client(url=url)
    yield client
    client.http.client.close()


@pytest.fixture
def thread(client: SyncLangGraphClient) -> str:
    return client.threads.create()["thread_id"]
