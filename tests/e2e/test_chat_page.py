"""The chat page in a real browser, against the example agents: see tests/js/pages."""

from pathlib import Path

import pytest
from relay import relay_to
from test_dashboard_page import EXAMPLES, SCRIPTED, SLOWLY
from test_js_clients import node, restart_on_request

from threadwire.testing.server import running_server

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("part", ["conversation", "questions", "threads"])
@pytest.mark.timeout(300)  # it opens dozens of pages
def test_the_chat_page_works_in_a_browser(tmp_path: Path, part: str) -> None:
    assert (EXAMPLES / "chat-page" / "dist" / "index.html").exists(), "The page is not built: run `make page`"
    environment = SCRIPTED | ({"THREADWIRE_EXAMPLE_DELAY": "0.08"} if part == "threads" else {})
    with (
        running_server(EXAMPLES / "langgraph.json", tmp_path / "data", env=environment) as server,
        node(f"pages/chat-{part}.test.js", "playwright-core", server.url) as process,
    ):
        printed, _ = process.communicate(timeout=240)
    assert process.returncode == 0, printed


def test_the_chat_page_survives_a_server_crash(tmp_path: Path) -> None:
    with (
        running_server(EXAMPLES / "langgraph.json", tmp_path / "data", env=SCRIPTED | SLOWLY) as server,
        relay_to(server.url) as url,
        node("pages/chat-killed.test.js", "playwright-core", url) as process,
    ):
        restart_on_request(server, process)


def test_the_chat_page_displays_previews_of_a_server_with_auth(tmp_path: Path) -> None:
    with (
        running_server(Path(__file__).parents[1] / "auth/project/langgraph.json", tmp_path / "data") as server,
        node("pages/chat-previews.test.js", "playwright-core", server.url) as process,
    ):
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0, printed
