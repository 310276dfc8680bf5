"""The documentation matches the code: everything is documented, everything documented exists, and the snippets run."""

import datetime
import enum
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen
from uuid import UUID

import pytest
import typer
from fastapi import FastAPI
from pydantic import BaseModel

from threadwire import errors
from threadwire.cli import app as cli
from threadwire.core.json import dumps
from threadwire.core.webhooks import WebhookRules
from threadwire.environment import PREFIX
from threadwire.graphs.config import load_config
from threadwire.graphs.http_config import HttpConfig
from threadwire.graphs.webhook_config import read_webhooks, resolve_headers
from threadwire.http.problems import STATUS, status_of
from threadwire.server.app import build_api, open_server
from threadwire.server.combined_settings import combined_settings
from threadwire.testing.server import RunningServer, running_server

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
EXAMPLES = ROOT / "examples" / "langgraph.json"
JS = ROOT / "tests" / "js"
TUTORIAL = DOCS / "tutorial" / "first-agent.md"
AG_UI = ROOT / "js" / "packages" / "ag-ui"
NOT_OURS = {".venv", "node_modules", ".git", ".pytest_cache", ".hypothesis", "build", "dist"}
PAGES = sorted(path for path in ROOT.rglob("*.md") if not NOT_OURS & set(path.relative_to(ROOT).parts))

SETTINGS = combined_settings()
URL = "http://127.0.0.1:2024"
WITHIN = 60.0

_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_ROUTE = re.compile(r"^### `(GET|POST|PUT|PATCH|DELETE) (/\S*)`$", re.MULTILINE)


class Block(NamedTuple):
    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in _FENCE.findall(page.read_text())]


def rows(page: Path) -> list[list[str]]:
    """The cells of every table row of a page."""
    lines = (line for line in page.read_text().splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def row_of(page: Path, name: str) -> list[str]:
    """The first row that starts with this name."""
    return next(row for row in rows(page) if row[0] == f"`{name}`")


# -- the reference is complete ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS.model_fields)
def test_every_setting_is_documented(name: str) -> None:
    field = SETTINGS.model_fields[name]
    _, variable, default, text = row_of(REFERENCE / "settings.md", name)
    assert variable == f"`{PREFIX}{name.upper()}`"
    assert default == f"`{_shown(field.default)}`"
    assert field.description is not None
    assert text.startswith(" ".join(field.description.split()))


def test_every_documented_setting_exists() -> None:
    named = set(re.findall(rf"`{PREFIX}(\w+)`", (REFERENCE / "settings.md").read_text()))
    assert {name.lower() for name in named} == set(SETTINGS.model_fields)


def _shown(default: Any) -> str:
    if isinstance(default, frozenset):
        return json.dumps(sorted(default))
    return json.dumps(default) if isinstance(default, bool) else str(default)


def test_every_command_and_option_is_documented() -> None:
    page = (REFERENCE / "cli.md").read_text()
    group = typer.main.get_command(cli)
    assert isinstance(group, typer.core.TyperGroup)
    assert set(re.findall(r"^## `threadwire (\w+)`$", page, re.MULTILINE)) == set(group.commands)
    options = {"--help", *(name for option in group.params for name in option.opts)}
    for path, command in _commands(group):
        assert command.help is not None
        assert " ".join(command.help.split()) in " ".join(page.split())
        for option in command.params:
            if option.param_type_name == "argument":
                assert f"`threadwire {path} {option.name.upper()}`: {option.help}" in page
                continue
            options.update(name for name in (*option.opts, *option.secondary_opts) if name.startswith("--"))
            _, variable, *_, text = row_of(REFERENCE / "cli.md", option.opts[0])
            assert variable == (f"`{option.envvar}`" if option.envvar else "none")
            assert text == option.help
    assert set(re.findall(r"`(--[a-z-]+)`", page)) == options


def _commands(group: typer.core.TyperGroup) -> Iterator[tuple[str, Any]]:
    """Every command with its path, those of groups too."""
    for name, command in group.commands.items():
        yield name, command
        if isinstance(command, typer.core.TyperGroup):
            yield from ((f"{name} {path}", each) for path, each in _commands(command))


def test_every_error_is_documented_with_its_status() -> None:
    page = REFERENCE / "errors.md"
    classes = [each for each in vars(errors).values() if isinstance(each, type) and each is not errors.ThreadwireError]
    assert set(STATUS) <= set(classes)
    for each in classes:
        assert row_of(page, each.__name__)[1] == str(status_of(each())), each


@pytest.fixture
async def application(tmp_path: Path) -> AsyncIterator[FastAPI]:
    settings = SETTINGS(config=EXAMPLES, data=tmp_path, storage="memory")
    async with open_server(settings) as server:
        yield build_api(server.engine, server.streams, settings, HttpConfig())


@pytest.mark.anyio
async def test_every_route_is_documented_and_every_documented_route_exists(application: FastAPI) -> None:
    paths = application.openapi()["paths"]
    existing = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert set(_ROUTE.findall((REFERENCE / "http-api.md").read_text())) == existing


@pytest.mark.anyio
async def test_every_tag_is_described_and_every_described_tag_is_used(application: FastAPI) -> None:
    schema = application.openapi()
    used = [operation["tags"] for methods in schema["paths"].values() for operation in methods.values()]
    described = [tag["name"] for tag in schema["tags"]]
    assert sorted({tag for tags in used for tag in tags}) == sorted(described)


@pytest.mark.anyio
async def test_every_query_and_body_field_is_documented_with_its_route(application: FastAPI) -> None:
    schema = application.openapi()
    page = (REFERENCE / "http-api.md").read_text()
    run_body = page.partition("ways to start a run")[2].partition("### ")[0] + page.partition("What is ignored")[2]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            section = page.partition(f"### `{method.upper()} {path}`\n")[2].partition("\n### ")[0]
            shared = run_body if "RunBody" in json.dumps(operation) else ""
            if "The same body" in section:
                named = re.search(r"The same body as `([^`]+)`", section)
                other = named[1] if named else "POST /threads/search"
                shared = page.partition(f"### `{other}`\n")[2].partition("\n### ")[0]
            for name in _inputs(schema, operation):
                assert name.lower() in (section + shared).lower(), f"{method} {path}: {name}"


def _inputs(schema: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    yield from (each["name"] for each in operation.get("parameters", ()) if each["in"] != "path")
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        reference = (body.get("anyOf") or [body.get("items", body)])[0]["$ref"]
        for name in schema["components"]["schemas"][reference.rpartition("/")[2]]["properties"]:
            if name != "checkpoint_during":  # the old name of `durability`, for old clients
                yield name


# -- encoding --------------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"


@dataclass
class AnObject:
    x: int


class AModel(BaseModel):
    y: int


class Pair(NamedTuple):
    left: int
    right: int


class Stubborn:
    def __str__(self) -> str:
        raise ValueError("no")


class Friendly:
    def to_dict(self) -> dict[str, int]:
        return {"k": 1}


NAMES = {
    **{name: getattr(datetime, name) for name in ("date", "datetime", "time", "timedelta", "timezone")},
    **{each.__name__: each for each in (UUID, Decimal, Fraction, Path, OrderedDict, deque)},
    **{each.__name__: each for each in (Color, AnObject, AModel, Pair, Stubborn, Friendly)},
    "a_list_that_contains_itself": (cycle := []),
    "re": re,
}
cycle.append(cycle)
ENCODED = [row for row in rows(REFERENCE / "encoding.md") if row[0].startswith("`")]


@pytest.mark.parametrize(("python", "shown"), ENCODED, ids=[row[0] for row in ENCODED])
def test_a_value_is_encoded_as_documented(python: str, shown: str) -> None:
    value = eval(python.strip("`"), dict(NAMES))  # safe: the expressions are from our own table
    assert dumps(value).decode() == shown.strip("`")


# -- links -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    text = _FENCE.sub("", page.read_text())
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{target} does not exist"
        if anchor:
            assert anchor in _anchors(found), f"{target} has no such heading"


@pytest.mark.parametrize("image", sorted((DOCS / "images").glob("*.png")), ids=lambda image: image.name)
def test_every_image_is_used(image: Path) -> None:
    shown = re.compile(rf"!\[[^\]]+\]\(\S*/{re.escape(image.name)}\)")
    assert any(shown.search(page.read_text()) for page in PAGES)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_of_the_docs_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path != DOCS / "README.md"]
    assert [page for page in pages if f"({page})" not in index] == []


# -- snippets --------------------------------------------------------------------------------------------------------


def python(code: str, server: RunningServer) -> str:
    """Run a snippet against this server and return its output."""
    assert URL in code
    return _printed([sys.executable, "-W", "error", "-c", code.replace(URL, server.url)], ROOT)


def _printed(command: list[str], folder: Path) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WITHIN, env=dict(os.environ))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_server_prints_what_the_readme_shows(server: RunningServer) -> None:
    shown = re.search(r"^```\n(Threadwire is listening on .*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    assert shown is not None
    expected = shown[1].replace(URL, server.url).replace("  .threadwire", f"  {server.data}")
    server.wait_for_log("^" + re.escape(expected))


FOUND = """\
Let me look that up.
Conflicts: 1, unassigned sections: 2.
- **Bob**, Mon 09:00: Biology and History
- **Nobody** teaches Ethics, Geometry
"""


@pytest.mark.parametrize("language", ["python", "js"])
def test_the_readme_clients_have_at_most_ten_lines(language: str) -> None:
    (client,) = [block for block in blocks(ROOT / "README.md") if block.language == language]
    assert len(list(filter(None, client.text.splitlines()))) <= 10


def test_the_python_client_in_the_readme_streams_a_response(server: RunningServer) -> None:
    (client,) = [block for block in blocks(ROOT / "README.md") if block.language == "python"]
    assert python(client.text, server) == FOUND


def test_the_javascript_client_in_the_readme_streams_a_response(server: RunningServer) -> None:
    (client,) = [block for block in blocks(ROOT / "README.md") if block.language == "js"]
    node = shutil.which("node")
    assert node, "this test needs Node 20 or later"
    assert URL in client.text
    assert '"@langchain/langgraph-sdk"' in client.text
    code = client.text.replace(URL, server.url).replace("@langchain/langgraph-sdk", "langgraph-sdk-2")
    printed = _printed([node, "--input-type=module", "--eval", code], JS)
    assert printed == FOUND


def test_the_how_to_on_resuming_a_stream_works(server: RunningServer) -> None:
    run, thread = [block for block in blocks(DOCS / "how-to" / "resume-a-stream.md") if block.language == "python"]
    lines = [line.split() for line in python(run.text + 'print("-", "-")\n' + thread.text, server).splitlines()]
    middle = lines.index(["-", "-"])
    for part in (lines[:middle], lines[middle + 1 :]):
        numbers = [int(number) for number, _ in part]
        assert numbers == sorted(set(numbers))
    assert int(lines[0][0]) > 3
    assert {event for _, event in lines[:middle]} == {"values", "messages"}
    assert [lines[middle + 1][1], lines[-1][1]] == ["metadata", "metadata"]


def test_the_how_to_on_asking_people_prints_the_documented_output(server: RunningServer) -> None:
    page = blocks(DOCS / "how-to" / "ask-people.md")
    program = "\n".join(block.text for block in page if block.language == "python")
    assert python(program, server) == "".join(block.text for block in page if block.language == "text")


@pytest.mark.parametrize(
    ("example", "printed"),
    [
        ("approvals", "- Two nights in Oslo: refused."),
        ("dashboard", "- **APY**: 8.31 % (-0.24 % since the day before)"),
        ("report", "7 of 8 Reading: Forums\n8 of 8 Writing\n# Demand for electric bicycles"),
    ],
)
def test_the_client_in_an_example_readme_prints_the_result(server: RunningServer, example: str, printed: str) -> None:
    (client,) = [block for block in blocks(ROOT / "examples" / example / "README.md") if block.language == "python"]
    assert printed in python(client.text, server)


def test_every_example_is_listed_and_has_a_readme() -> None:
    graphs = load_config(EXAMPLES).graphs
    listed = [re.sub(r"\W*(\w+).*", r"\1", row[0]) for row in rows(ROOT / "examples" / "README.md")]
    assert [name for name in listed if name in graphs] == list(graphs)
    for name in graphs:
        assert (ROOT / "examples" / name / "README.md").is_file(), name


def test_the_how_to_on_memory_works(tmp_path: Path) -> None:
    files = {block.title: block.text for block in blocks(DOCS / "how-to" / "give-agents-a-memory.md") if block.title}
    for title, text in files.items():
        (tmp_path / title).write_text(text)
    with running_server(tmp_path / "langgraph.json", tmp_path / "data") as server:
        first, second, third = python(files["remember.py"], server).splitlines()
    assert json.loads(first.replace("'", '"')) == ["I like tea", "works on looms"]
    assert json.loads(second.replace("'", '"')) == ["I hate the rain", "I like tea", "works on looms"]
    assert json.loads(third.replace("'", '"')) == ["I hate the rain", "work"]


def test_the_how_to_on_schedules_creates_updates_and_deletes_a_cron(server: RunningServer) -> None:
    (snippet,) = [block for block in blocks(DOCS / "how-to" / "run-on-a-schedule.md") if block.language == "python"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT0[78]:00:00\+00:00\n", python(snippet.text, server))


def test_the_webhook_rules_in_the_how_to_are_valid_and_complete() -> None:
    (project,) = [block for block in blocks(DOCS / "how-to" / "call-a-webhook.md") if block.language == "json"]
    rules = read_webhooks(json.loads(project.text)["webhooks"])
    assert resolve_headers(rules, {"LG_WEBHOOK_TOKEN": "secret"}).headers == {"Authorization": "Bearer secret"}
    named = {row[0].strip("`").removeprefix("url.") for row in rows(DOCS / "how-to" / "call-a-webhook.md")}
    assert {field.name for field in fields(WebhookRules)} <= named


def test_the_driver_test_in_the_how_to_collects_every_suite(tmp_path: Path) -> None:
    """Only collects the suites; tests/conformance runs them."""
    (snippet,) = [block for block in blocks(DOCS / "how-to" / "test-a-storage-driver.md") if block.title]
    (tmp_path / snippet.title).write_text(snippet.text)
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", snippet.title]
    printed = _printed(command, tmp_path)
    suites = set(re.findall(r"::(\w+)::", printed))
    assert suites == {
        "TestLog", "TestAccess", "TestThreads", "TestRuns", "TestTemporaryRuns", "TestClaims", "TestCrons",
        "TestDeliveries", "TestAssistants", "TestCheckpoints", "TestItems", "TestKeys", "TestFoldSnapshots",
        "TestWorkers", "TestStories",
    }  # fmt: skip


def test_the_how_to_on_mounting_works(tmp_path: Path) -> None:
    host, client = [
        block for block in blocks(DOCS / "how-to" / "mount-in-your-application.md") if block.language == "python"
    ]
    (tmp_path / host.title).write_text(host.text)
    agents = (ROOT / "tests" / "graphs" / "agents.py").read_text()
    (tmp_path / "agents.py").write_text(agents)
    (tmp_path / "langgraph.json").write_text('{"dependencies": ["."], "graphs": {"agent": "./agents.py:chat"}}')
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "main:app", "--port", str(port)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            assert any("Uvicorn running on" in line for line in running.stderr)
            address = f"http://127.0.0.1:{port}"
            assert urlopen(f"{address}/").read() == b'"hello"'
            code = client.text.replace("http://127.0.0.1:8000", address)
            assert "You said: hello" in _printed([sys.executable, "-W", "error", "-c", code], tmp_path)
        finally:
            running.kill()


# -- connect ---------------------------------------------------------------------------------------------------------


def test_every_test_in_the_table_of_connect_exists() -> None:
    named = {
        name for row in rows(REFERENCE / "connect.md") if len(row) == 3 for name in re.findall(r"`([^`]+)`", row[2])
    }
    functions = {name for name in named if name.startswith("test_")}
    sources = "".join(
        path.read_text() for path in (ROOT / "tests").glob("*/**/test_*.py") if "node_modules" not in str(path)
    )
    assert functions
    assert {name for name in functions if f"def {name}(" not in sources} == set()
    files = {name for name in named - functions if name.endswith(".test.js")}
    assert {name for name in files if not any((root / name).exists() for root in (ROOT, AG_UI))} == set()


def test_the_javascript_packages_do_not_use_any() -> None:
    sources = {path: path.read_text() for path in (AG_UI / "src").glob("*.ts")}
    assert {path.name for path, text in sources.items() if re.search(r"(:|as|<)\s*any\b", text)} == set()


# -- the tutorial ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that follows the steps of the tutorial: it starts after the first project file is written, and reloads
    the later files without a restart. Checks each project file."""
    folder = tmp_path_factory.mktemp("tutorial")
    files = [block for block in blocks(TUTORIAL) if block.title]
    first = next(number for number, block in enumerate(files) if block.title == "langgraph.json")
    _write(folder, files[: first + 1])
    with running_server(folder / "langgraph.json", folder / ".threadwire", command="dev") as running:
        _write(folder, files[first + 1 :])
        assert len(load_config(folder / "langgraph.json").graphs) == 3
        running.wait_for_log(r"Reloaded .*\n(.*\n)*  graph +report")
        yield running


def _write(folder: Path, files: list[Block]) -> None:
    for block in files:
        (folder / block.title).write_text(block.text)
        if block.language == "json":
            _printed([sys.executable, "-m", "threadwire", "check", "--config", block.title], folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_kills_processes_by_name(page: Path) -> None:
    assert re.findall(r"pkill|killall", page.read_text()) == []


def client_of(tutorial: RunningServer, name: str) -> str:
    return (tutorial.config.parent / name).read_text()


def test_the_tutorials_agent_streams(tutorial: RunningServer) -> None:
    lines = [line.partition(" ") for line in python(client_of(tutorial, "chat.py"), tutorial).splitlines()]
    numbers = [int(number) for number, _, _ in lines]
    assert numbers == sorted(set(numbers))
    assert "".join(text for _, _, text in lines) == "You said: hello, is anybody there?"
    assert len(lines) > 5


def test_the_tutorials_agent_asks_before_it_acts(tutorial: RunningServer) -> None:
    printed = python(client_of(tutorial, "book.py"), tutorial)
    assert f"```\n{printed}```" in TUTORIAL.read_text()


def test_the_tutorials_run_survives_a_kill(tutorial: RunningServer) -> None:
    lines = []
    with running_client(client_of(tutorial, "watch.py"), tutorial) as running:
        assert running.stdout is not None
        for line in running.stdout:
            lines.append(line.strip())
            if line.strip() == "page 2":
                tutorial.kill()
                tutorial.start()
    assert running.returncode == 0, lines
    assert [line for line in lines if line.startswith("page")] == [f"page {number}" for number in range(1, 9)]
    assert [line for line in lines if line.startswith("attempt")] == ["attempt 1", "attempt 2"]
    assert lines.index("attempt 2") > lines.index("page 2")


@contextmanager
def running_client(code: str, server: RunningServer) -> "Iterator[subprocess.Popen[str]]":
    with subprocess.Popen(
        [sys.executable, "-c", code.replace(URL, server.url)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
            process.wait(WITHIN)
        finally:
            process.kill()
