"""Threadwire inside somebody's own application, or under any ASGI server."""

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
from threadwire.server.project import Project
from threadwire.settings import Settings

logger = structlog.get_logger("threadwire.server")

NOT_BEGUN = "Threadwire has not been started: pass its lifespan to the application it is mounted in."
OVER = "Threadwire has stopped."
NOT_OURS = frozenset({"host", "port", "reload", "log_level"})


def create_app(config: str | os.PathLike[str] = "langgraph.json", **settings: Any) -> "Application":
    """An ASGI application that serves a project. Nothing is loaded or opened before its lifespan begins.

    `settings` are those of docs/reference/settings.md, by name. Raises `ConfigError` for one that makes no sense.
    """
    if elsewhere := sorted(settings.keys() & NOT_OURS):
        raise ConfigError(f"{elsewhere[0]} is for the commands; here, the server that runs the application decides it")
    try:
        return Application(Settings(config=Path(config), **settings))
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ConfigError(f"{'.'.join(map(str, wrong['loc']))} makes no sense: {wrong['msg']}") from error


class Application:
    """Mount it, and pass its `lifespan` on: a mounted application is not told when the server starts and stops."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._alone = Router(lifespan=self.lifespan)
        self._server: Server | None = None
        self._unavailable = NOT_BEGUN

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Everything that lives: the engine, its runs, the database. Takes and ignores an application, so that it can
        be given to `FastAPI(lifespan=…)` as it is."""
        if self._server is not None:
            raise ConfigError("This application's lifespan has begun already.")
        try:
            async with open_server(self.settings) as self._server:
                _log_what_is_wrong(self._server.project)
                yield
        finally:
            self._server, self._unavailable = None, OVER

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._alone.lifespan(scope, receive, send)
        elif self._server is not None:
            await self._server.app(scope, receive, send)
        elif scope["type"] == "http":
            await problem(503, self._unavailable)(scope, receive, send)
        else:
            await WebSocketClose()(scope, receive, send)


def _log_what_is_wrong(project: Project) -> None:
    """Nobody else would say it: the commands do at their start."""
    for graph_id, reason in project.registry.failures().items():
        logger.error("graph_not_loaded", graph_id=graph_id, reason=reason)
    for mistake in project.config.problems:
        logger.error("project_file_is_wrong", file=str(project.config.path), mistake=mistake)
