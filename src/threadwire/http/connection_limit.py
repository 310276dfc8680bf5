"""Rejects requests on connections beyond the limit."""

from collections.abc import Awaitable

from starlette.types import ASGIApp, Receive, Scope, Send

from threadwire.http.problems import RETRY_AFTER_SECONDS, JsonResponse

BEYOND_LIMIT = "threadwire.beyond_limit"
"""Key of the ASGI scope for a function that counts a rejection. Present if the request's connection is beyond the
limit."""

TOO_MANY = "The server has too many open connections. Retry later."

_ALWAYS_SERVED = ("/ok", "/ready", "/metrics")
"""The last segments of paths that are always served; the project may have a prefix. A busy server is healthy, and the
operator must be able to see why it is busy."""


class ConnectionLimit:
    """An application in front of the others and behind CORS, so that pages can read the rejection."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if BEYOND_LIMIT not in scope or scope["path"].endswith(_ALWAYS_SERVED):
            return self._app(scope, receive, send)
        scope[BEYOND_LIMIT]()
        headers = {"Retry-After": str(RETRY_AFTER_SECONDS), "Connection": "close"}
        return JsonResponse({"detail": TOO_MANY}, 503, headers=headers)(scope, receive, send)
