"""`threadwire dev` and `threadwire serve`."""

import atexit
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from pydantic import ValidationError
from rich.console import Console

from threadwire.cli.logs import configure_logging
from threadwire.cli.reports import print_notes, print_reload_result, print_startup
from threadwire.environment import PREFIX
from threadwire.errors import ConfigError, ThreadwireError
from threadwire.graphs.config import ProjectConfig, load_config
from threadwire.server.app import Server
from threadwire.server.combined_settings import combined_settings, reject_unknown_variables
from threadwire.server.reloading import Reloaded, ReloadFailed
from threadwire.server.serving import serve
from threadwire.server.stock_variables import addresses_of, ignored_variables, settings_of, variable_of
from threadwire.settings import Settings

WORKER_COMMAND = (sys.executable, "-m", "threadwire.cli.worker_process")
EXIT_TIMEOUT = 1.5
"""Seconds that threads of the project's code have to return once everything is closed."""


def run_server(listener: socket.socket, *, dev: bool, notes: Sequence[str] = (), **options: Any) -> None:
    """Serve until a signal arrives. `notes` are printed at startup."""
    reject_unknown_variables()
    settings = read_settings(in_container=not dev, **options)
    configure_logging(settings.log_level)
    console = Console(highlight=False, soft_wrap=True)

    def announce(address: str, server: Server) -> None:
        print_startup(console, address, settings, server.project)
        print_notes(console, [*notes, *server.project.notes, *startup_warnings(settings, server.project.config)])

    def report(result: Reloaded | ReloadFailed) -> None:
        print_reload_result(console, settings.config.absolute().parent, result)

    with exit_without_waiting_for_threads():
        try:
            anyio.run(
                lambda: serve(
                    settings,
                    listener,
                    dev=dev,
                    announce=announce,
                    report=report if dev and settings.reload else None,
                    worker_command=None if dev else WORKER_COMMAND,
                ),
                backend_options={"use_uvloop": True},
            )
        except BaseExceptionGroup as group:
            raise first_error(group) from group


def startup_warnings(settings: Settings, config: ProjectConfig) -> list[str]:
    warnings = []
    if settings.insecure_no_auth and (load_config(config.path).auth or config.http.enable_custom_route_auth):
        warnings.append("the project's auth is off (--insecure-no-auth): any client can read and change every thread")
    if ignored := ignored_variables(os.environ):
        warnings.append(f"these variables of the stock server have no effect: {', '.join(ignored)}")
    return warnings


@contextmanager
def exit_without_waiting_for_threads() -> Iterator[None]:
    """Exit even if threads of the project's code are still running. At exit, Python waits for non-daemon threads and
    for those of every ThreadPoolExecutor, which LangGraph uses wherever a sync node calls a graph. Such a node may
    still be running and must not keep the process alive."""
    code = 1
    try:
        yield
        code = 0
    finally:
        timer = threading.Timer(EXIT_TIMEOUT, _exit, (code,))
        timer.daemon = True
        timer.start()
        atexit.register(timer.cancel)  # runs once the threads have ended, before handlers that were registered earlier


def _exit(code: int) -> None:
    for output in (sys.stdout, sys.stderr):
        output.flush()
    os._exit(code)


def read_settings(*, in_container: bool = False, **options: Any) -> Settings:
    """Read the settings from the options, from Threadwire's environment variables, and from those of the stock server,
    which may also be in the project's own environment. With `in_container`, also read those of the licensed container.
    Raises `ConfigError`."""
    stock = settings_of({**os.environ, **_project_variables(options["config"])})
    if in_container:
        stock |= addresses_of(os.environ)
    try:
        return combined_settings()(**{**stock, **options})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        option = _option(name) if name in options else variable_of(name) if name in stock else f"{PREFIX}{name.upper()}"
        raise ConfigError(f"Invalid value for {option}: {first['msg']}") from error


def _option(setting: str) -> str:
    """The option that sets this setting."""
    return {"concurrency": "--n-jobs-per-worker", "log_level": "--server-log-level"}.get(setting, f"--{setting}")


def _project_variables(config: Path) -> dict[str, str]:
    try:
        return load_config(config).env
    except ConfigError:  # reported when the project is loaded
        return {}


def first_error(group: BaseException) -> BaseException:
    """Return the error to show to the user from any number of nested exception groups."""
    while isinstance(group, BaseExceptionGroup):
        candidates = [error for error in group.exceptions if isinstance(error, (ThreadwireError, BaseExceptionGroup))]
        group = (candidates or list(group.exceptions))[0]
    return group
