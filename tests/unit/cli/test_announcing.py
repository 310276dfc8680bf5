import json
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from threadwire.cli.announcing import print_report, print_start
from threadwire.graphs.config import load_config
from threadwire.server.project import load_project
from threadwire.server.reloading import NotReloaded, Reloaded

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
def loaded(tmp_path, monkeypatch):
    """Loads a project with these graphs."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = dict(sys.modules)

    def load(graphs, **rest):
        for name, text in FILES.items():
            (tmp_path / name).write_text(text)
        (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": graphs, **rest}))
        return load_project(load_config(tmp_path / "langgraph.json"))

    yield load
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


def started(project, **options):
    return printed(print_start, ADDRESS, Path("/data"), project, **options)


def test_the_start_tells_where_everything_is_and_what_is_served(loaded):
    described = {"path": "./agent.py:graph", "description": "Takes one step, and then it has taken it."}
    project = loaded({"agent": described, "other_agent": "./agent.py:graph"})
    assert started(project) == [
        "Threadwire is listening on http://127.0.0.1:2024",
        "",
        "  LangGraph API   http://127.0.0.1:2024",
        "  docs            http://127.0.0.1:2024/docs",
        "  AG-UI           http://127.0.0.1:2024/ag-ui/{agent}",
        "  CopilotKit      http://127.0.0.1:2024/copilotkit",
        "  data            /data",
        "",
        "  graph           agent        Takes one step, and then it has taken it.",
        "  graph           other_agent",
    ]


def test_addresses_have_the_prefix_of_the_project_and_its_pages_are_among_them(loaded):
    project = loaded({"agent": "./agent.py:graph"}, http={"mount_prefix": "/api", "app": "./web.py:app"})
    assert started(project)[2:7] == [
        "  LangGraph API   http://127.0.0.1:2024/api",
        "  docs            http://127.0.0.1:2024/api/docs",
        "  AG-UI           http://127.0.0.1:2024/api/ag-ui/{agent}",
        "  CopilotKit      http://127.0.0.1:2024/api/copilotkit",
        "  page            http://127.0.0.1:2024/api/site/",
    ]


def test_docs_that_are_switched_off_are_not_promised(loaded):
    project = loaded({"agent": "./agent.py:graph"}, http={"disable_meta": True})
    assert not any("docs" in line for line in started(project))


def test_a_terminal_is_shown_as_much_of_a_description_as_it_has_room_for(loaded):
    project = loaded({"agent": {"path": "./agent.py:graph", "description": "Takes one step, and then no other."}})
    assert started(project, terminal=True)[-1] == "  graph           agent  Takes one step…"


def test_what_is_wrong_is_told_whole_and_as_it_is_written(loaded):
    project = loaded({"[bold]": "./nowhere_to_be_found_at_all.py:graph"}, env=["A"], dependancies=["."])
    graph, mistake, warning = started(project, terminal=True)[-3:]
    assert graph.startswith("  ✗ graph         [bold]: file not found: ./nowhere_to_be_found_at_all.py")
    assert mistake.startswith('  ✗ mistake       langgraph.json: "env" must be an object of variables')
    assert warning.startswith("  warning         langgraph.json: ")
    assert "dependancies" in warning


def test_a_reload_tells_which_graphs_are_new_and_which_are_gone(loaded):
    project = loaded({"agent": "./agent.py:graph", "fresh": "./agent.py:graph"})
    root = project.config.path.parent
    came_of_it = Reloaded([root / "agent.py"], 0.031, project, added=["fresh"], removed=["stale"])
    assert printed(print_report, root, came_of_it) == [
        "Reloaded (agent.py) in 0.03 s",
        "  graph           fresh",
        "  graph gone      stale: its threads stay, but it cannot be run",
    ]


def test_of_many_changed_files_only_their_number_is_told(tmp_path):
    changed = [tmp_path / f"{number}.py" for number in range(4)]
    first, _ = printed(print_report, tmp_path, NotReloaded(changed, "no [such] thing"))
    assert first == "Not reloaded (4 files): no [such] thing"
