"""Every method of every client works or is known not to; docs/reference/conformance.md lists them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_js_clients import CONFIG, NODE_TIMEOUT, SDKS, node
from tour import methods, tour

from generated_docs import check_section, markdown_table
from threadwire.testing.server import RunningServer, running_server

PYTHON = {"Python, async": "async", "Python, sync": "sync"}
JAVASCRIPT = {"JavaScript 1.12.0": "langgraph-sdk-1", "JavaScript 2.0.0": "langgraph-sdk-2"}
Report = dict[str, set[str]]
"""The methods that a client has (`there`), and those that worked (`used`)."""


@pytest.fixture(scope="module")
def js_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(CONFIG, tmp_path_factory.mktemp("tour") / "data") as running:
        yield running


@pytest.fixture(scope="module")
async def clients(server: RunningServer, js_server: RunningServer, tmp_path_factory: Any) -> dict[str, Report]:
    found = {name: {"there": methods(kind), "used": await tour(kind, server.url)} for name, kind in PYTHON.items()}
    folder = tmp_path_factory.mktemp("reports")
    for name, sdk in JAVASCRIPT.items():
        found[name] = js_tour("tour/methods.test.js", sdk, js_server.url, folder / f"{sdk}.json")
    return found


@pytest.fixture(scope="module")
def hooks(js_server: RunningServer, tmp_path_factory: Any) -> dict[str, Report]:
    folder = tmp_path_factory.mktemp("reports")
    return {
        name: js_tour("tour/hook.test.js", sdk, js_server.url, folder / f"{sdk}-hook.json")
        for name, sdk in JAVASCRIPT.items()
    }


def js_tour(file: str, sdk: str, url: str, report: Path) -> Report:
    assert sdk in SDKS
    with node(file, sdk, url, TOUR_REPORT=str(report)) as process:
        printed, _ = process.communicate(timeout=NODE_TIMEOUT)
    assert process.returncode == 0, printed
    return {key: {in_python(name) for name in names} for key, names in json.loads(report.read_text()).items()}


def in_python(name: str) -> str:
    """Convert `threads.getState` to `threads.get_state`, so that both are one row."""
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", name) if "." in name else name


@pytest.mark.anyio
async def test_every_method_of_every_client_is_used(clients: dict[str, Report]) -> None:
    for name, report in clients.items():
        assert report["there"] <= report["used"], name


def test_every_field_of_the_hooks_is_used(hooks: dict[str, Report]) -> None:
    for name, report in hooks.items():
        assert report["there"] <= report["used"], name


@pytest.mark.anyio
async def test_the_page_lists_the_methods(clients: dict[str, Report]) -> None:
    rows = sorted(set.union(*(report["there"] for report in clients.values())))
    table = [[f"`{row}`", *(cell(row, report) for report in clients.values())] for row in rows]
    check_section("conformance.md", "methods", markdown_table(["", *clients], table))


def test_the_page_lists_the_hooks(hooks: dict[str, Report]) -> None:
    rows = sorted(set.union(*(report["there"] for report in hooks.values())))
    table = [[f"`{row}`", *(cell(row, report) for report in hooks.values())] for row in rows]
    check_section("conformance.md", "hooks", markdown_table(["", *hooks], table))


def cell(name: str, report: Report) -> str:
    if name not in report["there"]:
        return "-"
    assert name in report["used"]
    return "✓"
