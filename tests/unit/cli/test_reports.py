import json
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from threadwire.cli.errors import print_error
from threadwire.cli.reports import print_reload_result, print_startup
from threadwire.errors import ConfigError
from threadwire.graphs.config import load_config
from threadwire.server.project import load_project
from threadwire.server.reloading import Reloaded, ReloadFailed
from threadwire.settings import Settings

BROKEN = """
from langchain_core.messages import SystemMessage

prompt = SystemMessage(content={})
"""
ADDRESS = "http://127.0.0.1:2024"
FILES = {
    "agent.py": """
from langgraph.graph import START, MessagesState, StateGraph

graph = StateGraph(MessagesState).add_node("step", lambda state: {}).add_edge(START, "step").compile()
""",
    "web.py": """
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

app = Starlette(routes=[Mount("/site", StaticFiles(directory=".", html=True))])
""",
}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A function that loads a project with the given graphs."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = dict(sys.modules)

    def load_with(graphs, **rest):
        for name, text in FILES.items():
            (tmp_path / name).write_text(text)
        (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": graphs, **rest}))
        return load_project(load_config(tmp_path / "langgraph.json"))

    yield load_with
    for name in set(sys.modules) - set(modules):
        if name.startswith("threadwire_graphs_"):
            del sys.modules[name]


def printed(write, *arguments, terminal=False):
    output = StringIO()
    console = Console(
        file=output, width=40, highlight=False, soft_wrap=True, force_terminal=terminal, color_system=None
    )
    write(console, *arguments)
    return output.getvalue().splitlines()


def startup_lines(project, settings=None, **options):
    return printed(print_startup, ADDRESS, settings or Settings(data=Path("/data")), project, **options)


def test_a_database_is_shown_without_its_password(load):
    project = load({"agent": "./agent.py:graph"})
    settings = Settings(storage="postgresql://user:secret@db/agents", redis="redis://:secret@cache", role="api")
    lines = startup_lines(project, settings)
    assert [line.split() for line in lines if line.startswith(("  storage", "  redis", "  role", "  data"))] == [
        ["storage", "postgresql://user:***@db/agents"],
        ["redis", "redis://:***@cache"],
        ["role", "api"],
    ]


def test_a_worker_announces_no_protocols(load):
    project = load({"agent": "./agent.py:graph"})
    lines = startup_lines(project, Settings(storage="postgresql://db/agents", role="worker"))
    assert not any("http://" in line for line in lines[1:])
    assert "  graph           agent" in lines


def test_the_startup_output_lists_addresses_and_graphs(load):
    described = {"path": "./agent.py:graph", "description": "Takes one step, and then it has taken it."}
    project = load({"agent": described, "other_agent": "./agent.py:graph"})
    assert startup_lines(project) == [
        "Threadwire is listening on http://127.0.0.1:2024",
        "",
        "  LangGraph API   http://127.0.0.1:2024",
        "  docs            http://127.0.0.1:2024/docs",
        "  AG-UI           http://127.0.0.1:2024/ag-ui/{agent}",
        "  CopilotKit      http://127.0.0.1:2024/copilotkit",
        "  timeline        http://127.0.0.1:2024/threads/{thread_id}/timeline",
        "  ChatKit         http://127.0.0.1:2024/chatkit/{agent}",
        "  data            /data",
        "",
        "  graph           agent        Takes one step, and then it has taken it.",
        "  graph           other_agent",
    ]


def test_addresses_include_the_prefix_and_the_pages_of_the_project(load):
    project = load({"agent": "./agent.py:graph"}, http={"mount_prefix": "/api", "app": "./web.py:app"})
    assert startup_lines(project)[2:9] == [
        "  LangGraph API   http://127.0.0.1:2024/api",
        "  docs            http://127.0.0.1:2024/api/docs",
        "  AG-UI           http://127.0.0.1:2024/api/ag-ui/{agent}",
        "  CopilotKit      http://127.0.0.1:2024/api/copilotkit",
        "  timeline        http://127.0.0.1:2024/api/threads/{thread_id}/timeline",
        "  ChatKit         http://127.0.0.1:2024/api/chatkit/{agent}",
        "  page            http://127.0.0.1:2024/api/site/",
    ]


def test_disabled_docs_are_not_listed(load):
    project = load({"agent": "./agent.py:graph"}, http={"disable_meta": True})
    assert not any("docs" in line for line in startup_lines(project))


def test_a_description_is_truncated_to_the_width_of_a_terminal(load):
    project = load({"agent": {"path": "./agent.py:graph", "description": "Takes one step, and then no other."}})
    assert startup_lines(project, terminal=True)[-1] == "  graph           agent  Takes one step…"


def test_problems_are_printed_in_full_and_without_markup(load):
    project = load({"[bold]": "./nowhere_to_be_found_at_all.py:graph"}, env=["A"], dependancies=["."])
    graph, invalid, warning = startup_lines(project, terminal=True)[-3:]
    assert graph.startswith("  ✗ graph         [bold]: file not found: ./nowhere_to_be_found_at_all.py")
    assert invalid.startswith('  ✗ invalid       langgraph.json: "env" must be an object of variables')
    assert warning.startswith("  warning         langgraph.json: ")
    assert "dependancies" in warning


def test_a_graph_that_cannot_be_imported_is_printed_with_its_traceback(load, tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    lines = startup_lines(load({"broken": "./broken.py:graph"}))[10:]
    assert lines[0].startswith("  ✗ graph         broken: importing ./broken.py failed: ValidationError: ")
    assert lines[1] == "    Traceback (most recent call last):"
    assert f'      File "{tmp_path}/broken.py", line 4, in <module>' in lines
    assert any("Input should be a valid string" in line for line in lines)
    assert not any("importlib" in line for line in lines)


def test_a_reload_lists_added_and_removed_graphs(load):
    project = load({"agent": "./agent.py:graph", "fresh": "./agent.py:graph"})
    root = project.config.path.parent
    result = Reloaded([root / "agent.py"], 0.031, project, added=["fresh"], removed=["stale"])
    assert printed(print_reload_result, root, result) == [
        "Reloaded (agent.py) in 0.03 s",
        "  graph           fresh",
        "  graph removed   stale: its threads remain, but it can no longer run",
    ]


def test_many_changed_files_are_only_counted(tmp_path):
    changed = [tmp_path / f"{number}.py" for number in range(4)]
    first, _ = printed(print_reload_result, tmp_path, ReloadFailed(changed, "no [such] thing"))
    assert first == "Reload failed (4 files): no [such] thing"


def test_a_failed_reload_is_printed_with_its_traceback(tmp_path):
    result = ReloadFailed([tmp_path / "agent.py"], "graph agent: importing failed", "Traceback:\n  [line]")
    assert printed(print_reload_result, tmp_path, result)[1:] == [
        "    Traceback:",
        "      [line]",
        "  The previous version is still being served; save again to retry.",
    ]


def test_an_application_that_cannot_be_imported_is_reported_with_its_traceback(load, tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    with pytest.raises(ConfigError) as raised:
        load({"agent": "./agent.py:graph"}, http={"app": "./broken.py:app"})
    first, *traceback = printed(print_error, raised.value)
    assert first.startswith("threadwire: ")
    assert '"http"."app": importing ./broken.py failed: ValidationError' in first
    assert f'      File "{tmp_path}/broken.py", line 4, in <module>' in traceback
