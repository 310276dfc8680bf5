"""What `threadwire dev` and `threadwire serve` tell the person who started them."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from threadwire.server.composing import pages_of
from threadwire.server.project import Project
from threadwire.server.reloading import NotReloaded, Reloaded

LABEL = 16
NAMED = 3
"""How many changed files are named; of more, only how many there are."""


def print_start(console: Console, address: str, data: Path, project: Project) -> None:
    """Where everything is, and what is served there."""
    console.print(Text.assemble(("Threadwire", "bold"), " is listening on ", (address, "bold")))
    console.print()
    for name, place in _places(address, project):
        _print_row(console, name, place)
    _print_row(console, "data", str(data))
    console.print()
    _print_graphs(console, project, project.registry.ids())
    _print_warnings(console, project)


def print_report(console: Console, root: Path, came_of_it: Reloaded | NotReloaded) -> None:
    """What a change to the project's files has led to."""
    changed = _named(came_of_it.changed, root)
    if isinstance(came_of_it, NotReloaded):
        console.print(Text.assemble(("Not reloaded", "red"), f" ({changed}): {came_of_it.problem}"))
        console.print("  What was loaded before goes on being served; save again to try again.")
        return
    project = came_of_it.project
    console.print(Text.assemble(("Reloaded", "green"), f" ({changed}) in {came_of_it.seconds:.2f} s"))
    told = {*came_of_it.added, *project.registry.failures()}
    _print_graphs(console, project, [graph_id for graph_id in project.registry.ids() if graph_id in told])
    for graph_id in came_of_it.removed:
        _print_row(console, "graph gone", f"{graph_id}: its threads stay, but it cannot be run", "yellow")
    if project.config.path in came_of_it.changed:
        _print_warnings(console, project)


def _places(address: str, project: Project) -> list[tuple[str, str]]:
    http = project.config.http
    at = address + http.mount_prefix
    places = [("LangGraph API", at), ("AG-UI", f"{at}/ag-ui/{{agent}}"), ("CopilotKit", f"{at}/copilotkit")]
    if http.offers("/docs"):
        places.insert(1, ("docs", f"{at}/docs"))
    pages = [] if project.own_app is None else pages_of(project.own_app)
    return places + [("page", at + path) for path in pages]


def _print_graphs(console: Console, project: Project, graph_ids: list[str]) -> None:
    failures = project.registry.failures()
    longest = max(map(len, graph_ids), default=0)
    for graph_id in graph_ids:
        if graph_id in failures:  # the mark, because there may be no colours
            _print_row(console, "✗ graph", f"{graph_id}: {failures[graph_id]}", "red")
        else:
            described = project.registry.description(graph_id) or ""
            _print_row(console, "graph", f"{graph_id:{longest}}  {described}".rstrip(), cut=True)


def _print_warnings(console: Console, project: Project) -> None:
    for problem in project.config.problems:
        _print_row(console, "✗ mistake", f"{project.config.path.name}: {problem}", "red")
    for warning in project.config.warnings:
        _print_row(console, "warning", f"{project.config.path.name}: {warning}", "yellow")


# Text, not markup: a graph's name or an error may contain square brackets.
def _print_row(console: Console, label: str, text: str, style: str = "dim", *, cut: bool = False) -> None:
    """One line, however long, so that it can be copied and searched for; or as much of it as a terminal is wide."""
    line = Text.assemble("  ", (label.ljust(LABEL), style), text)
    if cut and console.is_terminal:
        console.print(line, soft_wrap=False, no_wrap=True, overflow="ellipsis")
    else:
        console.print(line)


def _named(changed: list[Path], root: Path) -> str:
    if len(changed) > NAMED:
        return f"{len(changed)} files"
    return ", ".join(str(path.relative_to(root)) if path.is_relative_to(root) else str(path) for path in changed)
