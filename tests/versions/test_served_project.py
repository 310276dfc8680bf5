"""A project on the installed LangGraph, through a real server."""

import re
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version

import pytest
from dialogues import DIALOGUES, PROJECT
from packaging.version import Version

from threadwire.testing.server import RunningServer, running_server

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(PROJECT, tmp_path_factory.mktemp("served") / "data") as running:
        yield running


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda dialogue: dialogue.__name__)
async def test_a_client_can(server: RunningServer, dialogue: Callable[[str], Awaitable[None]]) -> None:
    await dialogue(server.url)


def test_each_fallback_of_an_older_langgraph_is_logged_once(server: RunningServer) -> None:
    """The table of docs/reference/versions.md; none with the newest versions."""
    logged = re.findall(r"langgraph_fallback.*?piece='?([\w ]+?)'?(?: \w+=|$)", server.log(), re.MULTILINE)
    langgraph, checkpoint = Version(version("langgraph")), Version(version("langgraph-checkpoint"))
    expected = {
        "tools mode": langgraph < Version("1.2"),
        "strict resume": langgraph < Version("1.2.20"),
        "interrupt ids": langgraph < Version("1.2.20"),
        "types of checkpoints": checkpoint < Version("4.0.1"),
    }
    assert sorted(logged) == sorted(piece for piece, is_expected in expected.items() if is_expected)
