"""Threadwire inside another application, or under any ASGI server."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError
from starlette.routing import Router
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from threadwire.errors import ConfigError
from threadwire.http.problems import problem
from threadwire.server.app import Server, open_server
from threadwire.server.combined_settings import combined_settings
from threadwire.server.project import Project
from threadwire.server.stock_variables import ignored_variables, settings_of
from threadwire.settings import Settings

logger = structlog.get_logger("threadwire.server")

NOT_STARTED = "Threadwire has not been started: pass its lifespan to the application it is mounted in."
STOPPED = "Threadwire has stopped."
COMMAND_SETTINGS = frozenset(
    {
        *("host", "port", "reload", "log_level"),
        *("max_connections", "request_head_seconds", "request_body_seconds", "keep_alive_seconds"),
    }
)


def create_app(config: str | os.PathLike[str] = "langgraph.json", **settings: Any) -> "Application":
    """Return an ASGI application that serves a project. Nothing is loaded or opened before its lifespan starts.

    `settings` are those of docs/reference/settings.md, by name. Raise `ConfigError` for an invalid one.
    """
    if unsupported := sorted(settings.keys() & COMMAND_SETTINGS):
        raise ConfigError(f"Invalid setting {unsupported[0]}: configure it in the server that runs the application")
    try:
        return Application(combined_settings()(config=Path(config), **{**settings_of(os.environ), **settings}))
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"Invalid setting {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


class Application:
    """An ASGI application. If you mount it, also run its `lifespan`: a mounted application gets no lifespan events."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._alone = Router(lifespan=self.lifespan)
        self._server: Server | None = None
        self._unavailable = NOT_STARTED

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Run the engine and open the database. The argument is ignored; it exists so that the method can be passed to
        `FastAPI(lifespan=…)`."""
        if self._server is not None:
            raise ConfigError("The lifespan of this application is already running.")
        try:
            async with open_server(self.settings) as self._server:
                _log_problems(self._server.project)
                yield
        finally:
            self._server, self._unavailable = None, STOPPED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._alone.lifespan(scope, receive, send)
        elif self._server is not None:
            await self._server.app(scope, receive, send)
        elif scope["type"] == "http":
            await problem(503, self._unavailable)(scope, receive, send)
        else:
            await WebSocketClose()(scope, receive, send)


def _log_problems(project: Project) -> None:
    """Log what the commands print at startup."""
    for graph_id, error in project.registry.load_errors().items():
        traceback = {} if error.traceback is None else {"stack": error.traceback}
        logger.error("graph_load_failed", graph_id=graph_id, error=str(error), **traceback)
    if ignored := ignored_variables(os.environ):
        logger.warning("variables_ignored", names=ignored)
    for reason in project.config.problems:
        logger.error("config_entry_ignored", file=str(project.config.path), error=reason)
