"""The dashboard page in a real browser, against the example agents: see tests/js/pages."""

from pathlib import Path

import pytest
from relay import relay_to
from test_js_clients import JS, NODE_TIMEOUT, node, restart_on_request

from threadwire.testing.server import running_server

EXAMPLES = JS.parent.parent / "examples"
SCRIPTED = {"THREADWIRE_EXAMPLE_MODEL": "scripted"}
SLOWLY = {"THREADWIRE_EXAMPLE_DELAY": "0.15"}

pytestmark = pytest.mark.browser


def test_the_page_works_in_a_browser(tmp_path: Path) -> None:
    assert (EXAMPLES / "dashboard-page" / "dist" / "index.html").exists(), "The page is not built: run `make page`"
    with (
        running_server(EXAMPLES / "langgraph.json", tmp_path / "data", env=SCRIPTED) as server,
        node("pages/dashboard.test.js", "playwright-core", server.url) as process,
    ):
        printed, _ = process.communicate(timeout=NODE_TIMEOUT)
    assert process.returncode == 0, printed


def test_the_page_survives_a_server_crash(tmp_path: Path) -> None:
    with (
        running_server(EXAMPLES / "langgraph.json", tmp_path / "data", env=SCRIPTED | SLOWLY) as server,
        relay_to(server.url) as url,
        node("pages/dashboard-killed.test.js", "playwright-core", url) as process,
    ):
        restart_on_request(server, process)
