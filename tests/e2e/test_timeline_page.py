"""The timeline page in a real browser, against the example agents: see tests/js/pages."""

from pathlib import Path

import pytest
from relay import relay_to
from test_dashboard_page import EXAMPLES, SCRIPTED
from test_js_clients import node, restart_on_request

from threadwire.testing.server import running_server

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("part", ["conversation", "questions", "connection"])
@pytest.mark.timeout(300)  # it opens dozens of pages
def test_the_timeline_page_works_in_a_browser(tmp_path: Path, part: str) -> None:
    assert (EXAMPLES / "timeline-page" / "dist" / "index.html").exists(), "The page is not built: run `make page`"
    with (
        running_server(EXAMPLES / "langgraph.json", tmp_path / "data", env=SCRIPTED) as server,
        node(f"pages/timeline-{part}.test.js", "playwright-core", server.url) as process,
    ):
        printed, _ = process.communicate(timeout=240)
    assert process.returncode == 0, printed


def test_the_timeline_page_survives_a_server_crash(tmp_path: Path) -> None:
    with (
        running_server(EXAMPLES / "langgraph.json", tmp_path / "data", env=SCRIPTED) as server,
        relay_to(server.url) as url,
        node("pages/timeline-killed.test.js", "playwright-core", url) as process,
    ):
        restart_on_request(server, process)
