"""The console output of `threadwire dev` and `threadwire serve`: at startup and after a reload."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from threadwire.cli.errors import print_traceback
from threadwire.core.addresses import redacted
from threadwire.http.protocol import Announcement
from threadwire.server.composition import html_pages
from threadwire.server.project import Project
from threadwire.server.protocols import PROTOCOLS
from threadwire.server.reloading import Reloaded, ReloadFailed
from threadwire.settings import Settings

LABEL_WIDTH = 16
MAX_NAMED_FILES = 3
"""The maximum number of changed files to list by name. If there are more, only their number is printed."""


def print_startup(console: Console, address: str, settings: Settings, project: Project) -> None:
    """Print the addresses and the graphs that are served."""
    console.print(Text.assemble(("Threadwire", "bold"), " is listening on ", (address, "bold")))
    console.print()
    for name, url in _urls(address, project) if settings.role != "worker" else ():
        _print_row(console, name, url)
    for name, place in _storage_rows(settings):
        _print_row(console, name, place)
    console.print()
    _print_graphs(console, project, project.registry.ids())
    _print_warnings(console, project)


def print_notes(console: Console, notes: Sequence[str]) -> None:
    """Print what the operator should know about the options and the environment."""
    for note in notes:
        _print_row(console, "warning", note, "yellow")


def print_reload_result(console: Console, root: Path, result: Reloaded | ReloadFailed) -> None:
    """Print the result of a reload."""
    changed = _file_list(result.changed, root)
    if isinstance(result, ReloadFailed):
        console.print(Text.assemble(("Reload failed", "red"), f" ({changed}): {result.reason}"))
        print_traceback(console, result.traceback)
        console.print("  The previous version is still being served; save again to retry.")
        return
    project = result.project
    console.print(Text.assemble(("Reloaded", "green"), f" ({changed}) in {result.seconds:.2f} s"))
    reported = {*result.added, *project.registry.failures()}
    _print_graphs(console, project, [graph_id for graph_id in project.registry.ids() if graph_id in reported])
    for graph_id in result.removed:
        _print_row(console, "graph removed", f"{graph_id}: its threads remain, but it can no longer run", "yellow")
    if project.config.path in result.changed:
        _print_warnings(console, project)
    print_notes(console, project.notes)


def _urls(address: str, project: Project) -> list[tuple[str, str]]:
    http = project.config.http
    base = address + http.mount_prefix
    announced = [each for protocol in PROTOCOLS for each in protocol.announcements]
    announced.insert(1, Announcement("docs", "/docs"))
    pages = [] if project.user_app is None else html_pages(project.user_app)
    urls = [(label, base + path) for label, path in announced if http.serves(path)]
    return urls + [("page", base + path) for path in pages]


def _storage_rows(settings: Settings) -> list[tuple[str, str]]:
    if not settings.is_on_postgres:
        return [("data", str(settings.data.resolve()))]
    rows = [("storage", redacted(settings.storage))]
    if settings.redis is not None:
        rows.append(("redis", redacted(settings.redis)))
    return [*rows, ("role", settings.role)]


def _print_graphs(console: Console, project: Project, graph_ids: list[str]) -> None:
    failures = project.registry.load_errors()
    longest = max(map(len, graph_ids), default=0)
    for graph_id in graph_ids:
        if graph_id in failures:  # marked, because colours may be unavailable
            _print_row(console, "✗ graph", f"{graph_id}: {failures[graph_id]}", "red")
            print_traceback(console, failures[graph_id].traceback)
        else:
            description = project.registry.description(graph_id) or ""
            _print_row(console, "graph", f"{graph_id:{longest}}  {description}".rstrip(), cut=True)


def _print_warnings(console: Console, project: Project) -> None:
    for reason in project.config.problems:
        _print_row(console, "✗ invalid", f"{project.config.path.name}: {reason}", "red")
    for warning in project.config.warnings:
        _print_row(console, "warning", f"{project.config.path.name}: {warning}", "yellow")


# Text, not markup: a graph's name or an error may contain square brackets.
def _print_row(console: Console, label: str, text: str, style: str = "dim", *, cut: bool = False) -> None:
    """Print one unwrapped line, so that it can be copied and searched. `cut` truncates it to fit a terminal."""
    line = Text.assemble("  ", (label.ljust(LABEL_WIDTH), style), text)
    if cut and console.is_terminal:
        console.print(line, soft_wrap=False, no_wrap=True, overflow="ellipsis")
    else:
        console.print(line)


def _file_list(changed: list[Path], root: Path) -> str:
    if len(changed) > MAX_NAMED_FILES:
        return f"{len(changed)} files"
    return ", ".join(str(path.relative_to(root)) if path.is_relative_to(root) else str(path) for path in changed)
