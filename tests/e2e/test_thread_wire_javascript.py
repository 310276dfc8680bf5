"""The JavaScript clients of the thread wire: `ThreadStream` of the SDK, and `useStream` of `@langchain/react` under a
DOM and in Chromium, and of `@langchain/svelte`. Each file of tests/js/wire is one test here."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from relay import cutting_relay_to, relay_to
from test_js_clients import CONFIG, JS, NO_DRAIN, NODE_TIMEOUT, SETTINGS, node, restart_on_request

from threadwire.testing.server import RunningServer, running_server

KILLED = "wire/killed.test.js"
CUT = "wire/cut.test.js"
FILES = sorted({str(path.relative_to(JS)) for path in (JS / "wire").glob("*.test.js")} - {KILLED, CUT})
SDK = "langgraph-sdk-1"
"""The other one does not implement this protocol."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(CONFIG, tmp_path_factory.mktemp("data"), env=SETTINGS) as running:
        yield running


@pytest.mark.parametrize(
    "file", [pytest.param(file, marks=[pytest.mark.browser] if "browser" in file else []) for file in FILES]
)
def test_the_javascript_clients_work_unchanged(server: RunningServer, file: str) -> None:
    with node(file, SDK, server.url) as process:
        printed, _ = process.communicate(timeout=NODE_TIMEOUT)
    assert process.returncode == 0, printed


@pytest.mark.parametrize("transport", ["sse", "websocket"])
def test_a_stream_cut_at_any_event_and_resumed_equals_an_uninterrupted_one(
    server: RunningServer, transport: str
) -> None:
    with (
        cutting_relay_to(server.url) as (url, cuts),
        node(CUT, SDK, url, TRANSPORT=transport) as process,
    ):
        printed, _ = process.communicate(timeout=NODE_TIMEOUT)
    assert process.returncode == 0, printed
    assert set(cuts.values()) == {1}
    assert len(cuts) > 50


@pytest.mark.parametrize("stop", ["kill", "terminate"])
def test_a_page_survives_a_server_restart(tmp_path: Path, stop: str) -> None:
    with (
        running_server(CONFIG, tmp_path / "data", env=NO_DRAIN) as server,
        relay_to(server.url) as url,
        node(KILLED, SDK, url) as process,
    ):
        restart_on_request(server, process, stop)
