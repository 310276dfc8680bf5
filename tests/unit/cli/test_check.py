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

    def run(graphs, **rest):
        (tmp_path / "agent.py").write_text(AGENT)
        (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": graphs, **rest}))
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


def test_a_key_that_is_not_known_is_told_and_fails_nothing(checked):
    code, lines = checked({"good": "./agent.py:builder"}, http={"disable_mpc": True})
    assert code == 0
    assert lines[-1] == (
        '! langgraph.json  "http"."disable_mpc" is not known and is ignored. Did you mean "disable_mcp"?'
    )


@pytest.mark.parametrize(
    ("app", "complaint"),
    [
        ("./agent.py:builder", "./agent.py:builder is an object of type StateGraph, not a Starlette or FastAPI"),
        ("./agent.py:nowhere", "./agent.py:nowhere is not there, not a Starlette or FastAPI application."),
        ("./missing.py:app", "file not found: ./missing.py"),
    ],
)
def test_an_application_that_cannot_be_served_is_told(checked, app, complaint):
    code, lines = checked({"good": "./agent.py:builder"}, http={"app": app})
    assert code == 1
    assert lines[-1].startswith("✗ http  ")
    assert f'"http"."app": {complaint}' in lines[-1]


@pytest.mark.parametrize(
    "rest", [{"auth": {"path": "./auth.py:auth"}}, {"http": {"enable_custom_route_auth": True}}], ids=["auth", "routes"]
)
def test_what_counts_on_auth_is_told(checked, rest):
    code, lines = checked({"good": "./agent.py:builder"}, **rest)
    assert code == 1
    assert lines[-1].startswith("✗ auth  ")
    assert "which Threadwire does not offer yet" in lines[-1]


def test_what_the_project_brings_is_looked_for_too(checked):
    code, lines = checked({"good": "./agent.py:builder"}, checkpointer={"path": "./agent.py:saver"})
    assert code == 1
    assert lines[-1] == '✗ configuration  "checkpointer": ./agent.py has no "saver".'


def test_a_mistake_in_the_config_is_one_line(tmp_path):
    output = StringIO()
    assert check(tmp_path / "langgraph.json", Console(file=output, width=40)) == 1
    assert output.getvalue() == (
        f"✗ configuration  {tmp_path / 'langgraph.json'} does not exist. Pass the path of your langgraph.json.\n"
    )
