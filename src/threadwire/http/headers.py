"""Headers that matter to runs, and those that are written to the log."""

import time
from collections.abc import Awaitable, Callable

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadwire.engine.request import brought_along

Chosen = Callable[[str], bool]
"""Whether a header, in lower case, is one of those that are wanted."""

# Where in which thread a run is to start is the body's to say; `__` is the runtime's.
_NOT_FROM_HEADERS = frozenset({"checkpoint_id", "checkpoint_ns", "checkpoint_map"})

logger = structlog.get_logger("threadwire.http")


class ConfigurableHeaders:
    """Hand the chosen headers to the runs that a request starts."""

    def __init__(self, app: ASGIApp, chosen: Chosen) -> None:
        self._app = app
        self._chosen = chosen

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] in ("http", "websocket"):
            headers = chosen_headers(scope, self._chosen).items()
            brought_along.set(
                {name: value for name, value in headers if name not in _NOT_FROM_HEADERS and not name.startswith("__")}
            )
        return self._app(scope, receive, send)


class RequestLog:
    """A line in the log for every request, when it has been answered."""

    def __init__(self, app: ASGIApp, chosen: Chosen) -> None:
        self._app = app
        self._chosen = chosen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = 0, time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            logger.debug(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                seconds=round(time.perf_counter() - began, 4),
                headers=chosen_headers(scope, self._chosen),
            )


def chosen_headers(scope: Scope, chosen: Chosen) -> dict[str, str]:
    headers = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"])
    return {name: value for name, value in headers if chosen(name)}
