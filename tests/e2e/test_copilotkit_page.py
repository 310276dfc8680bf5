"""A page built with CopilotKit's React components, in a real browser, against a server without a Node runtime. The page
is in tests/copilotkit-page, and its tests are in tests/js/pages."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from clients import PROJECT
from relay import relay_to
from test_js_clients import JS, NODE_TIMEOUT, node, restart_on_request

from threadwire.testing.server import RunningServer, running_server

BUILT = JS.parent / "copilotkit-page" / "dist"

SETUPS = {"v2": "", "v2-one-address": "single=1", "v1": "v1=1"}
"""The provider of either version, and the single-endpoint transport."""
OF_V2 = ["v2", "v2-one-address"]
FILES = {
    "pages/copilotkit-chat.test.js": list(SETUPS),
    "pages/copilotkit-interrupts.test.js": list(SETUPS),
    "pages/copilotkit-tools.test.js": list(SETUPS),
    "pages/copilotkit-threads.test.js": OF_V2,
    "pages/copilotkit-errors.test.js": OF_V2,
}
KILLED = "pages/copilotkit-killed.test.js"

pytestmark = pytest.mark.browser


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """Serve the files of a folder, and yield their origin. It differs from the server's, as for most pages."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def page_url() -> Iterator[str]:
    assert (BUILT / "index.html").exists(), "The page is not built: run `make test`"
    with site(BUILT) as url:
        yield url


@pytest.fixture(scope="module")
def server(page_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(PROJECT, tmp_path_factory.mktemp("data"), env=allowing(page_url)) as running:
        yield running


def allowing(page_url: str) -> dict[str, str]:
    return {"THREADWIRE_ALLOWED_ORIGINS": json.dumps([page_url])}


def page_tests() -> list[object]:
    """Each file with each setup. `make test` uses one setup per file, and both transports and versions between them."""
    used = {"pages/copilotkit-tools.test.js": "v1", "pages/copilotkit-errors.test.js": "v2-one-address"}
    return [
        pytest.param(file, setup, marks=() if setup == used.get(file, "v2") else pytest.mark.extended)
        for file, setups in FILES.items()
        for setup in setups
    ]


@pytest.mark.parametrize(("file", "setup"), page_tests())
def test_the_page_works_in_a_browser(server: RunningServer, page_url: str, file: str, setup: str) -> None:
    with node(file, "playwright-core", server.url, PAGE_URL=page_url, SETUP=SETUPS[setup]) as process:
        printed, _ = process.communicate(timeout=NODE_TIMEOUT)
    assert process.returncode == 0, printed


def test_a_message_survives_a_server_crash(page_url: str, tmp_path: Path) -> None:
    with (
        running_server(PROJECT, tmp_path / "data", env=allowing(page_url)) as server,
        relay_to(server.url) as url,
        node(KILLED, "playwright-core", url, PAGE_URL=page_url) as process,
    ):
        restart_on_request(server, process)


def test_every_test_file_is_run() -> None:
    assert {str(path.relative_to(JS)) for path in (JS / "pages").glob("copilotkit-*.test.js")} == {*FILES, KILLED}
