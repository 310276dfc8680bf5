"""A protocol is a folder and a line: `ticker` is served, streamed, resumed, announced, described and configured, and
nothing but one line in its server names it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ticker.protocol import TICKER
from ticker.settings import TickerSettings

from threadwire import create_app
from threadwire.errors import ConfigError
from threadwire.server.protocols import PROTOCOLS
from threadwire.testing.server import RunningServer, running_server

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "tests" / "graphs" / "langgraph.json"
SERVER = Path(__file__).with_name("ticker_server.py")
UNKNOWN_ID = "6f1d2c4e-0000-4000-8000-000000000000"

_FRAME = re.compile(rb"event: tick\r\ndata: (.*?)\r\nid: (\d+)\r\n\r\n")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(PROJECT, tmp_path_factory.mktemp("ticker") / "data", program=SERVER) as running:
        yield running


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=20) as client:
        yield client


@pytest.fixture
def thread_id(http: httpx.Client) -> str:
    created: str = http.post("/threads", json={}).json()["thread_id"]
    return created


def run_echo(http: httpx.Client, thread_id: str) -> None:
    body = {"assistant_id": "echo", "input": {"text": "hi"}}
    assert http.post(f"/threads/{thread_id}/runs/wait", json=body).status_code == 200


def frames(http: httpx.Client, thread_id: str, count: int, after: int | None = None) -> list[bytes]:
    """The first `count` frames after a position."""
    headers = {} if after is None else {"last-event-id": str(after)}
    received = b""
    with http.stream("GET", f"/ticker/{thread_id}", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for chunk in response.iter_raw():
            received += chunk
            found = [match[0] for match in _FRAME.finditer(received)]
            if len(found) >= count:
                assert b"".join(found) == received, "nothing but ticks"
                return found
    raise AssertionError(f"the stream ended after {received!r}")


def ticks(found: list[bytes]) -> list[tuple[int, str]]:
    data: list[dict[str, Any]] = [json.loads(match[1]) for each in found if (match := _FRAME.fullmatch(each))]
    return [(each["number"], each["kind"]) for each in data]


def test_it_streams_the_log_of_a_thread(http: httpx.Client, thread_id: str) -> None:
    run_echo(http, thread_id)
    run_echo(http, thread_id)
    assert ticks(frames(http, thread_id, 4)) == [(1, "run.started"), (2, "run.ended")] * 2


def test_it_streams_a_run_that_starts_later(http: httpx.Client, thread_id: str) -> None:
    with http.stream("GET", f"/ticker/{thread_id}") as response:
        run_echo(http, thread_id)
        received = response.iter_raw()
        assert b"run.started" in next(received)


def test_it_resumes_after_every_id_with_the_same_bytes(http: httpx.Client, thread_id: str) -> None:
    run_echo(http, thread_id)
    run_echo(http, thread_id)
    all_frames = frames(http, thread_id, 4)
    for index, each in enumerate(all_frames[:-1]):
        match = _FRAME.fullmatch(each)
        assert match is not None
        rest = all_frames[index + 1 :]
        assert frames(http, thread_id, len(rest), after=int(match[2])) == rest


def test_it_resumes_after_a_crash(tmp_path: Path) -> None:
    with running_server(PROJECT, tmp_path / "data", program=SERVER) as server:
        with httpx.Client(base_url=server.url, timeout=20) as http:
            thread_id = http.post("/threads", json={}).json()["thread_id"]
            run_echo(http, thread_id)
            first, second = frames(http, thread_id, 2)
        server.kill()
        server.start()
        match = _FRAME.fullmatch(first)
        assert match is not None
        with httpx.Client(base_url=server.url, timeout=20) as http:
            assert frames(http, thread_id, 1, after=int(match[2])) == [second]


def test_its_errors_have_the_common_form(http: httpx.Client, thread_id: str) -> None:
    unknown = http.get(f"/ticker/{UNKNOWN_ID}")
    assert (unknown.status_code, list(unknown.json())) == (404, ["detail"])
    beyond = http.get(f"/ticker/{thread_id}", headers={"last-event-id": "99"})
    assert (beyond.status_code, list(beyond.json())) == (400, ["detail"])


def test_its_get_routes_have_head_routes(http: httpx.Client, thread_id: str) -> None:
    assert http.head(f"/ticker/{thread_id}").status_code == 200


def test_it_is_announced(server: RunningServer) -> None:
    server.wait_for_log(rf"\n  ticker +{re.escape(server.url)}/ticker/\{{thread_id\}}\n")


def test_it_is_described(http: httpx.Client) -> None:
    described = http.get("/openapi.json").json()
    assert described["paths"]["/ticker/{thread_id}"]["get"]["tags"] == ["ticker"]
    assert {"name": "ticker", "description": "One tick per entry of a thread's log."} in described["tags"]
    page = http.get("/docs").text
    assert "<h2>ticker</h2><p>One tick per entry of a thread&#x27;s log.</p>" in page


def test_its_setting_is_read_from_the_environment(tmp_path: Path) -> None:
    env = {"THREADWIRE_TICKER_KINDS": '["run.queued"]'}
    with (
        running_server(PROJECT, tmp_path / "data", program=SERVER, env=env) as server,
        httpx.Client(base_url=server.url, timeout=20) as http,
    ):
        thread_id = http.post("/threads", json={}).json()["thread_id"]
        run_echo(http, thread_id)
        assert ticks(frames(http, thread_id, 1)) == [(1, "run.queued")]


@pytest.mark.parametrize(
    ("variable", "error"),
    [
        ("THREADWIRE_TICKER_KINDS", "Invalid value for THREADWIRE_TICKER_KINDS"),
        ("THREADWIRE_TICKER_KIND", "THREADWIRE_TICKER_KIND is not a Threadwire setting"),
    ],
)
def test_an_invalid_or_misspelt_setting_is_rejected_at_startup(tmp_path: Path, variable: str, error: str) -> None:
    with (
        pytest.raises(TimeoutError, match=error),
        running_server(PROJECT, tmp_path / "data", program=SERVER, env={variable: "3"}),
    ):
        pass


def test_its_setting_is_an_argument_of_create_app_once_it_is_listed() -> None:
    with pytest.raises(ConfigError, match="Invalid setting ticker_kinds"):
        create_app(PROJECT, ticker_kinds={"run.queued"})
    PROTOCOLS.append(TICKER)
    try:
        settings = create_app(PROJECT, ticker_kinds={"run.queued"}).settings
    finally:
        PROTOCOLS.remove(TICKER)
    assert isinstance(settings, TickerSettings)
    assert settings.ticker_kinds == {"run.queued"}


# -- import contracts ------------------------------------------------------------------------------------------------


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the import contracts of the sources in `folder`."""
    command = [shutil.which("lint-imports", path=Path(sys.executable).parent) or "lint-imports", "--no-cache"]
    env = {**os.environ, "PYTHONPATH": str(folder / "src")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.fixture
def ticker(tmp_path: Path) -> Path:
    """The folder of the ticker inside a copy of our sources."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src" / "threadwire", tmp_path / "src" / "threadwire", ignore=ignored)
    folder = tmp_path / "src" / "threadwire" / "protocols" / "ticker"
    shutil.copytree(Path(__file__).with_name("ticker"), folder, ignore=ignored)
    for path in folder.glob("*.py"):
        path.write_text(path.read_text().replace("from ticker.", "from threadwire.protocols.ticker."))
    return folder


def test_it_keeps_the_import_contracts(tmp_path: Path, ticker: Path) -> None:
    checked = lint(tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_import_contracts_cover_a_new_folder(tmp_path: Path, ticker: Path) -> None:
    forbidden = [
        ("encode", "asyncio"),
        ("settings", "starlette"),
        ("routes", "langgraph"),
        ("routes", "threadwire.protocols.ag_ui.wire"),
        ("routes", "threadwire.storage.sqlite"),
    ]
    for module, imported in forbidden:
        path = ticker / f"{module}.py"
        path.write_text(f"import {imported}\n{path.read_text()}")
    checked = lint(tmp_path)
    assert checked.returncode == 1
    broken = re.findall(r"threadwire\.protocols\.ticker\.(\w+) -> ([\w.]+)", checked.stdout)
    assert set(broken) == set(forbidden)
