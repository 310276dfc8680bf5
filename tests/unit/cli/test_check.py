import json
import sys
from io import StringIO

import pytest
from rich.console import Console

from threadwire.cli.check import check

AGENT = """
from langgraph.graph import START, MessagesState, StateGraph

builder = StateGraph(MessagesState).add_node("step", lambda state: {}).add_edge(START, "step")

def make(config):
    return builder

def fail(config):
    raise ValueError("[bold]no key\\nlong explanation")

def nothing(config):
    return None
"""


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Checks a project with these graphs; gives the exit code and what was printed."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = dict(sys.modules)

    def run(graphs):
        (tmp_path / "agent.py").write_text(AGENT)
        (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": graphs}))
        output = StringIO()
        code = check(tmp_path / "langgraph.json", Console(file=output, width=40))
        return code, output.getvalue().splitlines()

    yield run
    for name in set(sys.modules) - set(modules):
        if name.startswith("threadwire_graphs_"):
            del sys.modules[name]


def test_graphs_that_load_are_drawn(checked):
    entry = {"path": "./agent.py:builder", "description": "Takes one step."}
    assert checked({"one": entry, "two": "./agent.py:make"}) == (
        0,
        [
            "✓ one  Takes one step.",
            "    __start__ → step",
            "    step      → __end__",
            "✓ two",
            "    __start__ → step",
            "    step      → __end__",
        ],
    )


def test_what_is_wrong_is_one_line_each(checked):
    code, lines = checked(
        {
            "bad": "./agent.py:grph",
            "good": "./agent.py:builder",
            "raising": "./agent.py:fail",
            "empty": "./agent.py:nothing",
        }
    )
    assert code == 1
    assert lines == [
        "✓ good",
        "    __start__ → step",
        "    step      → __end__",
        "✗ bad  ./agent.py has no 'grph'. In it are: builder.",
        "✗ raising  calling its factory failed: ValueError: [bold]no key",
        "✗ empty  The factory of graph 'empty' returned None, not a graph.",
    ]


def test_a_mistake_in_the_config_is_one_line(tmp_path):
    output = StringIO()
    assert check(tmp_path / "langgraph.json", Console(file=output, width=40)) == 1
    assert output.getvalue() == (
        f"✗ configuration  {tmp_path / 'langgraph.json'} does not exist. Pass the path of your langgraph.json.\n"
    )
