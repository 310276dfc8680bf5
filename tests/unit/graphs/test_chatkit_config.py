"""The `chatkit` section of a graph in langgraph.json."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from threadwire.errors import ConfigError
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.registry import load_registry
from threadwire.protocols.chatkit.agents import Agents

GRAPH = """
from langgraph.graph import START, StateGraph
graph = StateGraph(dict).add_node("n", lambda state: {}).add_edge(START, "n").compile()
"""


@pytest.fixture(autouse=True)
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Projects of other tests have an `agent.py` too."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def write(folder: Path, section: Any) -> Path:
    (folder / "agent.py").write_text(GRAPH)
    path = folder / "langgraph.json"
    path.write_text(json.dumps({"graphs": {"agent": {"path": "./agent.py:graph", "chatkit": section}}}))
    return path


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ([], '"chatkit": '),
        ({"greting": "x"}, '"chatkit"."greting": Extra inputs are not permitted'),
        ({"on_disconnect": "maybe"}, '"chatkit"."on_disconnect": '),
        ({"tools": {"a": {"titel": "x"}}}, '"chatkit"."tools"."a"."titel": '),
        ({"attachments": {"max_bytes": 0}}, '"chatkit"."attachments"."max_bytes": '),
    ],
)
def test_an_invalid_section_names_the_key(tmp_path: Path, section: Any, problem: str) -> None:
    source = load_config(write(tmp_path, section)).graphs["agent"]

    assert source.problem is not None
    assert source.problem.startswith(problem)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"formats": "./nowhere.py:formats"}, '"chatkit"."formats": file not found'),
        ({"formats": "./agent.py:missing"}, '"chatkit"."formats": ./agent.py:missing is not defined'),
        ({"widgets": {"a": "./nowhere.widget"}}, '"chatkit": the file "./nowhere.widget" cannot be read'),
    ],
)
def test_missing_code_and_files_are_reported_with_the_graph(tmp_path: Path, section: Any, problem: str) -> None:
    config = load_config(write(tmp_path, section))
    prepare_environment(config)

    with pytest.raises(ConfigError) as raised:
        load_registry(config)

    assert f'"graphs"."agent".{problem}' in raised.value.message


def test_formats_must_be_formats(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, {"formats": "./agent.py:graph"}))
    prepare_environment(config)

    with pytest.raises(ConfigError, match=r"must be a threadwire\.chatkit\.Formats"):
        Agents(load_registry(config))


def test_the_file_adds_to_the_formats_of_the_code(tmp_path: Path) -> None:
    path = write(tmp_path, {"formats": "./formats.py:formats", "tools": {"a": {"icon": "bug"}, "b": {"hidden": True}}})
    (tmp_path / "formats.py").write_text(
        "from threadwire.chatkit import Formats\n"
        "formats = Formats()\n"
        "@formats.tool('a', title='A', icon='bolt')\n"
        "def render(result):\n    return 'shown'\n"
    )
    config = load_config(path)
    prepare_environment(config)

    agent = Agents(load_registry(config)).formats().of("agent")

    assert (agent.tool("a").title, agent.tool("a").icon, agent.tool("a").result({})) == ("A", "bug", "shown")
    assert agent.tool("b").hidden
