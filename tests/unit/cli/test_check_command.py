import json
import sys
from io import StringIO

import pytest
from rich.console import Console

from threadwire.cli.check_command import check

AGENT = """
from contextlib import asynccontextmanager, contextmanager

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

builder = StateGraph(MessagesState).add_node("step", lambda state: {}).add_edge(START, "step")

def make(config):
    return builder

async def from_store(runtime):
    await runtime.store.aput(("a",), "key", {"value": 1})
    assert (await runtime.store.aget(("a",), "key")).value == {"value": 1}
    return builder

def fail(config):
    raise ValueError("[bold]no key\\nlong explanation")

def nothing(config):
    return None

def unreachable():
    raise OSError("unreachable")

@contextmanager
def open_saver():
    print("opened")
    yield InMemorySaver()
    print("closed")

@asynccontextmanager
async def broken(app):
    unreachable()
    yield

@asynccontextmanager
async def sound(app):
    print("started")
    yield
    print("stopped")

from starlette.applications import Starlette

app = Starlette(lifespan=broken)
fine = Starlette(lifespan=sound)
"""


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """A function that checks a project with the given graphs and returns the exit code and the printed lines."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = dict(sys.modules)

    def run(graphs, details=None, insecure_no_auth=False, **rest):
        (tmp_path / "agent.py").write_text(AGENT)
        (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": graphs, **rest}))
        output = StringIO()
        console = Console(file=output, width=40)
        code = check(tmp_path / "langgraph.json", console, details, insecure_no_auth=insecure_no_auth)
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


def test_each_problem_is_one_line(checked):
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
        "✗ bad  ./agent.py has no 'grph'. It defines: builder.",
        "✗ raising  its factory failed: ValueError: [bold]no key",
        "✗ empty  The factory of graph 'empty' returned None, not a graph.",
    ]


def test_tracebacks_are_printed_separately(checked):
    details = StringIO()
    code, lines = checked({"raising": "./agent.py:fail"}, details=Console(file=details, width=40))
    assert (code, len(lines)) == (1, 1)
    assert "agent.py" in details.getvalue()
    assert 'raise ValueError("[bold]no key' in details.getvalue()


def test_an_unknown_key_is_a_warning(checked):
    code, lines = checked({"good": "./agent.py:builder"}, http={"disable_mpc": True})
    assert code == 0
    assert lines[-1] == (
        '! langgraph.json  "http"."disable_mpc" is not a known key and is ignored. Did you mean "disable_mcp"?'
    )


@pytest.mark.parametrize(
    ("app", "problem"),
    [
        (
            "./agent.py:builder",
            "./agent.py:builder must be a Starlette or FastAPI application, but is an object of type StateGraph.",
        ),
        ("./agent.py:nowhere", "./agent.py:nowhere must be a Starlette or FastAPI application, but is not defined."),
        ("./missing.py:app", "file not found: ./missing.py"),
    ],
)
def test_an_application_that_cannot_be_served_is_reported(checked, app, problem):
    code, lines = checked({"good": "./agent.py:builder"}, http={"app": app})
    assert code == 1
    assert lines[-1].startswith("✗ http  ")
    assert f'"http"."app": {problem}' in lines[-1]


def test_a_factory_gets_a_store(checked):
    code, lines = checked({"good": "./agent.py:from_store"})
    assert (code, lines[0]) == (0, "✓ good")


def test_a_missing_env_file_is_a_warning(checked):
    code, lines = checked({"good": "./agent.py:builder"}, env=".env")
    assert code == 0
    assert lines[-1].startswith('! langgraph.json  "env": the file ".env" does not exist')


def test_a_project_may_be_checked_without_its_auth(checked):
    code, lines = checked({"good": "./agent.py:builder"}, auth={"path": "./auth.py:auth"}, insecure_no_auth=True)
    assert (code, lines[0]) == (0, "✓ good")


def test_auth_that_does_not_load_is_reported(checked):
    code, lines = checked({"good": "./agent.py:builder"}, auth={"path": "./agent.py:builder"})
    assert code == 1
    assert lines[-1].startswith("✗ auth  ")
    assert "must be an instance of langgraph_sdk.Auth" in lines[-1]


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ({"checkpointer": {"path": "./agent.py:saver"}}, '✗ checkpointer  "checkpointer": ./agent.py has no "saver".'),
        (
            {"checkpointer": {"path": "./agent.py:builder"}},
            '✗ checkpointer  "checkpointer": ./agent.py:builder must be a BaseCheckpointSaver, or a function or '
            "context manager (sync or async) that returns one, not StateGraph.",
        ),
        (
            {"checkpointer": {"path": "./agent.py:unreachable"}},
            '✗ checkpointer  "checkpointer": opening ./agent.py:unreachable failed: OSError: unreachable',
        ),
        (
            {"store": {"path": "./agent.py:builder"}},
            '✗ store  "store": ./agent.py:builder must be a BaseStore, or a function or context manager (sync or '
            "async) that returns one, not StateGraph.",
        ),
        (
            {"store": {"index": {"dims": 3, "embed": "./agent.py:builder"}}},
            '✗ store  "store.index.embed": ./agent.py:builder is neither a function nor an Embeddings',
        ),
        (
            {"webhooks": {"headers": {"x-key": "${{ env.LG_WEBHOOK_KEY }}"}}},
            '✗ webhooks  "webhooks"."headers": the variable LG_WEBHOOK_KEY is not set.',
        ),
        ({"http": {"app": "./agent.py:app"}}, '✗ http  "http"."app": its lifespan failed: OSError: unreachable'),
        ({"env": {"A": None}}, '✗ langgraph.json  "env"."A" must be a string, not null. It is not set.'),
        ({"dependencies": ["./nowhere"]}, '✗ langgraph.json  "dependencies": the folder "./nowhere" does not exist'),
    ],
)
def test_every_invalid_section_is_reported(checked, rest, problem):
    code, lines = checked({"good": "./agent.py:builder"}, **rest)
    assert code == 1
    assert len(lines) == 4
    assert lines[-1].startswith(problem)


def test_all_problems_are_reported_together(checked):
    code, lines = checked(
        {"good": "./agent.py:builder", "http": "./agent.py", "dotted": "./agent.py:builder.compile"},
        env=3,
        http={"app": "./agent.py:nowhere"},
        checkpointer={"path": "./agent.py:saver"},
        store={"path": "./agent.py:shelf"},
    )
    assert code == 1
    assert [line.partition("  ")[0] for line in lines if line.startswith("✗")] == [
        "✗ langgraph.json",
        "✗ http",
        "✗ dotted",
        "✗ http",
        "✗ checkpointer",
        "✗ store",
    ]


def test_a_working_saver_and_application_are_opened_and_closed(checked, capsys):
    rest = {"checkpointer": {"path": "./agent.py:open_saver"}, "http": {"app": "./agent.py:fine"}}
    assert checked({"good": "./agent.py:builder"}, **rest)[0] == 0
    assert capsys.readouterr().out.split() == ["started", "stopped", "opened", "closed"]


@pytest.mark.parametrize(
    ("variable", "problem"),
    [
        ("THREADWIRE_CONCURENCY", "THREADWIRE_CONCURENCY is not a Threadwire setting"),
        ("THREADWIRE_CONCURRENCY", "Invalid value for THREADWIRE_CONCURRENCY"),
        ("THREADWIRE_DEFAULT_AGENT", "Invalid value for default_agent: 'nope' is not one of the graphs: good"),
    ],
)
def test_invalid_settings_are_reported(checked, monkeypatch, variable, problem):
    monkeypatch.setenv(variable, "nope")
    code, lines = checked({"good": "./agent.py:builder"})
    assert code == 1
    assert lines[-1].startswith(f"✗ settings  {problem}")


def test_a_missing_project_file_is_reported_in_one_line(tmp_path):
    output = StringIO()
    assert check(tmp_path / "langgraph.json", Console(file=output, width=40)) == 1
    assert output.getvalue() == (
        f"✗ configuration  {tmp_path / 'langgraph.json'} does not exist. Pass the path of your langgraph.json.\n"
    )
