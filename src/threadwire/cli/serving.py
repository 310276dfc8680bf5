"""`threadwire dev` and `threadwire serve`."""

import atexit
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import structlog
from pydantic import ValidationError
from rich.console import Console

from threadwire.cli.announcing import print_report, print_start
from threadwire.errors import ConfigError, ThreadwireError
from threadwire.server.app import Server
from threadwire.server.reloading import NotReloaded, Reloaded
from threadwire.server.serving import serve
from threadwire.settings import PREFIX, Settings, refuse_unknown

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

LEFT_WITHIN = 1.5
"""Seconds that threads of the project's own have to return once everything is closed."""


def run_server(listener: socket.socket, *, dev: bool, **given: Any) -> None:
    refuse_unknown()
    settings = read_settings(**given)
    # Without the values of variables, which a traceback is otherwise told with: they are the users' own, and may be so
    # large that printing them takes longer than anybody wants to wait.
    structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[settings.log_level]),
        cache_logger_on_first_use=True,
    )
    console = Console(highlight=False, soft_wrap=True)

    def announce(address: str, server: Server) -> None:
        print_start(console, address, settings.data.resolve(), server.project)

    def report(came_of_it: Reloaded | NotReloaded) -> None:
        print_report(console, settings.config.absolute().parent, came_of_it)

    with _leaving_threads_behind():
        try:
            anyio.run(
                lambda: serve(
                    settings, listener, dev=dev, announce=announce, report=report if dev and settings.reload else None
                ),
                backend_options={"use_uvloop": True},
            )
        except BaseExceptionGroup as group:
            raise _first(group) from group


@contextmanager
def _leaving_threads_behind() -> Iterator[None]:
    """Before it exits, Python waits for threads that are no daemons, and for those of every ThreadPoolExecutor:
    LangGraph has some wherever a sync node calls a graph. Such a node may have been left behind, and must not keep the
    process."""
    code = 1
    try:
        yield
        code = 0
    finally:
        exits = threading.Timer(LEFT_WITHIN, _exit, (code,))
        exits.daemon = True
        exits.start()
        atexit.register(exits.cancel)  # it is called after the threads, and before whatever else is to be called then


def _exit(code: int) -> None:
    for output in (sys.stdout, sys.stderr):
        output.flush()
    os._exit(code)


def read_settings(**given: Any) -> Settings:
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
