"""`threadwire dev` and `threadwire serve`."""

import socket
from pathlib import Path
from typing import Any

import anyio
import structlog
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from threadwire.errors import ConfigError, ThreadwireError
from threadwire.server.app import Server
from threadwire.server.project import Project
from threadwire.server.reloading import NotReloaded, Reloaded
from threadwire.server.serving import serve
from threadwire.settings import PREFIX, Settings, refuse_unknown

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
NAMED = 3
"""How many changed files are named; of more, only how many there are."""


def run_server(listener: socket.socket, *, dev: bool, **given: Any) -> None:
    refuse_unknown()
    settings = _settings(**given)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[settings.log_level]),
        cache_logger_on_first_use=True,
    )
    console = Console(highlight=False, soft_wrap=True)

    def announce(address: str, server: Server) -> None:
        at = address + server.project.config.http.mount_prefix
        console.print(f"[bold]Threadwire[/bold] is listening on [link={address}]{address}[/link]")
        console.print(f"  LangGraph API   {at}          (docs: {at}/docs)")
        console.print(f"  data            {settings.data.resolve()}")
        _print_graphs(console, server.project, server.project.registry.ids())
        _print_warnings(console, server.project)

    def report(came_of_it: Reloaded | NotReloaded) -> None:
        _print_report(console, settings.config.absolute().parent, came_of_it)

    try:
        anyio.run(
            lambda: serve(
                settings, listener, dev=dev, announce=announce, report=report if dev and settings.reload else None
            ),
            backend_options={"use_uvloop": True},
        )
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _print_graphs(console: Console, project: Project, graph_ids: list[str]) -> None:
    failures = project.registry.failures()
    for graph_id in graph_ids:
        if graph_id in failures:
            console.print(f"  [red]graph[/red]           {escape(graph_id)}: {escape(failures[graph_id])}")
        else:
            described = project.registry.description(graph_id)
            console.print(f"  graph           {escape(graph_id)}" + (f": {escape(described)}" if described else ""))


def _print_warnings(console: Console, project: Project) -> None:
    for warning in project.config.warnings:
        console.print(f"  [yellow]warning[/yellow]         {escape(project.config.path.name)}: {escape(warning)}")


def _print_report(console: Console, root: Path, came_of_it: Reloaded | NotReloaded) -> None:
    changed = escape(_named(came_of_it.changed, root))
    if isinstance(came_of_it, NotReloaded):
        console.print(f"[red]Not reloaded[/red] ({changed}): {escape(came_of_it.problem)}")
        console.print("  What was loaded before goes on being served; save again to try again.")
        return
    project = came_of_it.project
    console.print(f"[green]Reloaded[/green] ({changed}) in {came_of_it.seconds:.2f} s")
    told = {*came_of_it.added, *project.registry.failures()}
    _print_graphs(console, project, [graph_id for graph_id in project.registry.ids() if graph_id in told])
    for graph_id in came_of_it.removed:
        console.print(f"  [yellow]graph gone[/yellow]      {escape(graph_id)}: its threads stay, but it cannot be run")
    if project.config.path in came_of_it.changed:
        _print_warnings(console, project)


def _named(changed: list[Path], root: Path) -> str:
    if len(changed) > NAMED:
        return f"{len(changed)} files"
    return ", ".join(str(path.relative_to(root)) if path.is_relative_to(root) else str(path) for path in changed)


def _settings(**given: Any) -> Settings:
    try:
        return Settings(**given)
    except ValidationError as error:
        wrong = error.errors()[0]
        name = ".".join(map(str, wrong["loc"]))
        shown = f"--{name}" if name in given else f"{PREFIX}{name.upper()}"
        raise ConfigError(f"{shown} makes no sense: {wrong['msg']}") from error


def _first(group: BaseException) -> BaseException:
    """The error a person should read, out of however many task groups wrapped it."""
    while isinstance(group, BaseExceptionGroup):
        told = [error for error in group.exceptions if isinstance(error, (ThreadwireError, BaseExceptionGroup))]
        group = (told or list(group.exceptions))[0]
    return group
