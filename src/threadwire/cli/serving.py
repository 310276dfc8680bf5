"""`threadwire dev` and `threadwire serve`."""

import socket
from typing import Any

import anyio
import structlog
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from threadwire.engine.lifecycle import Engine
from threadwire.errors import ConfigError, ThreadwireError
from threadwire.server.serving import serve
from threadwire.settings import PREFIX, Settings, refuse_unknown

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def run_server(listener: socket.socket, *, dev: bool, **given: Any) -> None:
    refuse_unknown()
    settings = _settings(**given)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(LEVELS[settings.log_level]))
    console = Console(highlight=False, soft_wrap=True)

    def announce(address: str, engine: Engine) -> None:
        console.print(f"[bold]Threadwire[/bold] is listening on [link={address}]{address}[/link]")
        console.print(f"  LangGraph API   {address}          (docs: {address}/docs)")
        console.print(f"  data            {settings.data.resolve()}")
        failures = engine.registry.failures()
        for graph_id in engine.registry.ids():
            if graph_id in failures:
                console.print(f"  [red]graph[/red]           {escape(graph_id)}: {escape(failures[graph_id])}")
            else:
                described = engine.registry.description(graph_id)
                console.print(f"  graph           {escape(graph_id)}" + (f": {escape(described)}" if described else ""))

    try:
        anyio.run(lambda: serve(settings, listener, dev=dev, announce=announce), backend_options={"use_uvloop": True})
    except BaseExceptionGroup as group:
        raise _first(group) from group


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
