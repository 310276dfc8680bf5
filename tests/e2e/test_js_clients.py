"""The official JavaScript clients, unmodified, against a running server: see tests/js.

Each file of tests/js is one test here, once for each version of the SDK in use.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from relay import relay_to

from threadwire.testing.server import RunningServer, running_server

JS = Path(__file__).parent.parent / "js"
CONFIG = JS / "agents" / "langgraph.json"
SETTINGS = {"THREADWIRE_ALLOWED_ORIGINS": '["http://localhost:3000"]'}
NO_DRAIN = {"THREADWIRE_DRAIN_SECONDS": "0"}
"""A server with these settings does not wait for its runs when it stops."""
SDKS = ["langgraph-sdk-1", "langgraph-sdk-2"]
KILL = "KILL THE SERVER"
NODE_TIMEOUT = 240.0

KILLED = ["client/killed.test.js", "hook/killed.test.js"]
FILES = sorted(str(path.relative_to(JS)) for folder in ("client", "hook") for path in (JS / folder).glob("*.test.js"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(CONFIG, tmp_path_factory.mktemp("data"), env=SETTINGS) as running:
        yield running


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("file", [file for file in FILES if file not in KILLED])
def test_the_javascript_sdk_works_unchanged(server: RunningServer, file: str, sdk: str) -> None:
    with node(file, sdk, server.url) as process:
        printed, _ = process.communicate(timeout=NODE_TIMEOUT)
    assert process.returncode == 0, printed


@pytest.mark.parametrize(
    ("prefix", "stop"), [("", "kill"), pytest.param("/api", "kill", marks=pytest.mark.extended), ("", "terminate")]
)
@pytest.mark.parametrize("file", KILLED)
@pytest.mark.parametrize("sdk", SDKS)
def test_a_stream_survives_a_server_restart(tmp_path: Path, sdk: str, file: str, prefix: str, stop: str) -> None:
    """The address stays, as behind a load balancer: 2.0.0 gives up if its only retry, after a second, fails."""
    with (
        running_server(below(prefix, tmp_path / "langgraph.json"), tmp_path / "data", env=NO_DRAIN) as server,
        relay_to(server.url) as url,
        node(file, sdk, url + prefix) as process,
    ):
        restart_on_request(server, process, stop)


def restart_on_request(server: RunningServer, process: "subprocess.Popen[str]", stop: str = "kill") -> None:
    """Kill or otherwise stop the server, and restart it, whenever the JavaScript test requests it. The test must
    pass."""
    printed: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        printed.append(line)
        if line.strip() == KILL:
            getattr(server, stop)()
            server.start()
    assert process.wait(NODE_TIMEOUT) == 0, "".join(printed)
    assert f"{KILL}\n" in printed


def below(prefix: str, copy: Path) -> Path:
    """Copy the project, with all its routes below a prefix."""
    content = json.loads(CONFIG.read_text())
    content["dependencies"] = [str(CONFIG.parent)]
    content["graphs"] = {name: str(CONFIG.parent / path) for name, path in content["graphs"].items()}
    copy.write_text(json.dumps({**content, "http": {"mount_prefix": prefix}}))
    return copy


@contextmanager
def node(file: str, sdk: str, url: str, **environment: str) -> "Iterator[subprocess.Popen[str]]":
    assert (JS / "node_modules" / sdk).is_dir(), "The JavaScript clients are not installed: run `make setup`"
    executable = shutil.which("node")
    assert executable, "These tests need Node 20 or later"
    process = subprocess.Popen(
        [executable, "--test-reporter=spec", file],
        cwd=JS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "SDK": sdk, "SERVER_URL": url, **environment},
    )
    with process:
        try:
            yield process
            process.wait(NODE_TIMEOUT)
        finally:
            process.kill()
