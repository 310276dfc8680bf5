"""An application that can be replaced while it serves requests."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

logger = structlog.get_logger("threadwire.server")


class Apps(NamedTuple):
    public: ASGIApp
    """For requests from outside."""
    inner: ASGIApp
    """For requests from inside the process."""


class SwappableApp:
    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._app: ASGIApp | None = None
        self._inner: ASGIApp | None = None
        self._state: Mapping[str, Any] = {}
        self._stop = anyio.Event()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        assert self._app is not None, "`use` must be called before the first request"
        if self._state:
            scope.setdefault("state", {}).update(self._state)
        return self._app(scope, receive, send)

    def inner(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Like calling the application, but without the checks of Host and Origin and without the prefix: for requests
        from inside the process."""
        assert self._inner is not None, "`use` must be called before the first request"
        if self._state:
            scope.setdefault("state", {}).update(self._state)
        return self._inner(scope, receive, send)

    async def use(self, apps: Apps, own: Starlette | None) -> None:
        """Send requests to `apps` from now on. The lifespan of the project's own application starts before the switch,
        and that of the previous one ends after it. If the lifespan fails to start, raise its error and change
        nothing."""
        stop = anyio.Event()
        state: Mapping[str, Any] = {} if own is None else await self._tasks.start(_run_lifespan, own, stop)
        self._stop.set()
        self._app, self._inner, self._state, self._stop = apps.public, apps.inner, state, stop

    def close(self) -> None:
        self._stop.set()


@asynccontextmanager
async def open_swappable_app() -> AsyncIterator[SwappableApp]:
    async with anyio.create_task_group() as tasks:
        switch = SwappableApp(tasks)
        try:
            yield switch
        finally:
            switch.close()


async def _run_lifespan(own: Starlette, stop: anyio.Event, *, task_status: TaskStatus[Mapping[str, Any]]) -> None:
    """Enter and exit the lifespan in the same task, as its context managers require."""
    started = False
    try:
        async with own.router.lifespan_context(own) as state:
            started = True
            task_status.started(dict(state or {}))
            await stop.wait()
    except Exception:
        if not started:
            raise
        logger.exception("lifespan_failed")
