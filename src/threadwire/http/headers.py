"""Request headers that are passed to runs, and those that are logged."""

import time
from collections.abc import Awaitable, Callable

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadwire.engine.request_context import request_configurable

HeaderFilter = Callable[[str], bool]
"""Whether to select a header, given its name in lower case."""

# The body decides where in a thread a run starts, and names with `__` belong to the runtime.
_NOT_FROM_HEADERS = frozenset({"checkpoint_id", "checkpoint_ns", "checkpoint_map"})

logger = structlog.get_logger("threadwire.http")


class ConfigurableHeaders:
    """Add the selected headers to the `configurable` of runs that a request starts."""

    def __init__(self, app: ASGIApp, chosen: HeaderFilter) -> None:
        self._app = app
        self._chosen = chosen

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] in ("http", "websocket"):
            headers = _select_headers(scope, self._chosen).items()
            request_configurable.set(
                {name: value for name, value in headers if name not in _NOT_FROM_HEADERS and not name.startswith("__")}
            )
        return self._app(scope, receive, send)


class RequestLog:
    """Log every request once its response is complete."""

    def __init__(self, app: ASGIApp, chosen: HeaderFilter) -> None:
        self._app = app
        self._chosen = chosen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, started_at = 0, time.perf_counter()

        async def recording_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, recording_send)
        finally:
            logger.debug(
                "request_completed",
                method=scope["method"],
                path=scope["path"],
                status=status,
                seconds=round(time.perf_counter() - started_at, 4),
                headers=_select_headers(scope, self._chosen),
            )


def _select_headers(scope: Scope, chosen: HeaderFilter) -> dict[str, str]:
    headers = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"])
    return {name: value for name, value in headers if chosen(name)}
