"""What requests are handed to: an application that can be replaced while it serves."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

logger = structlog.get_logger("threadwire.server")


class Switch:
    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._app: ASGIApp | None = None
        self._state: Mapping[str, Any] = {}
        self._over = anyio.Event()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        assert self._app is not None, "a switch is used before requests are let in"
        if self._state:
            scope.setdefault("state", {}).update(self._state)
        return self._app(scope, receive, send)

    async def use(self, app: ASGIApp, own: Starlette | None) -> None:
        """Hand requests to `app` from now on. The lifespan of the user's own application is begun before, and that of
        the one it replaces is ended after; if it cannot be begun, nothing changes and what it raised is raised."""
        over = anyio.Event()
        state: Mapping[str, Any] = {} if own is None else await self._tasks.start(_live, own, over)
        self._over.set()
        self._app, self._state, self._over = app, state, over

    def close(self) -> None:
        self._over.set()


@asynccontextmanager
async def open_switch() -> AsyncIterator[Switch]:
    async with anyio.create_task_group() as tasks:
        switch = Switch(tasks)
        try:
            yield switch
        finally:
            switch.close()


async def _live(own: Starlette, over: anyio.Event, *, task_status: TaskStatus[Mapping[str, Any]]) -> None:
    """From the beginning of a lifespan to its end, in one task, as context managers want it."""
    begun = False
    try:
        async with own.router.lifespan_context(own) as state:
            begun = True
            task_status.started(dict(state or {}))
            await over.wait()
    except Exception:
        if not begun:
            raise
        logger.exception("lifespan_ended_badly")
