"""A server whose project has auth, and clients of two users."""

from collections.abc import Iterator

import httpx
import pytest
from auth_clients import PROJECT, client_of

from threadwire.testing.server import RunningServer, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(PROJECT, tmp_path_factory.mktemp("auth") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def ada(server: RunningServer) -> Iterator[httpx.Client]:
    with client_of(server, {"authorization": "Bearer ada"}) as client:
        yield client


@pytest.fixture(scope="module")
def bob(server: RunningServer) -> Iterator[httpx.Client]:
    with client_of(server, {"authorization": "Bearer bob"}) as client:
        yield client
