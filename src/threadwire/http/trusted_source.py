"""Checks of the Host and Origin headers."""

import re
from collections.abc import Awaitable
from functools import lru_cache

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from threadwire.http.problems import problem

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
LOOPBACK_ORIGIN = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
MAX_LOGGED_ORIGINS = 100
FOREIGN = "threadwire.foreign"
"""Key of the ASGI scope for whether a foreign page may have caused the request."""

_REJECTED = "This server does not accept requests from that origin"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_FOREIGN_SITES = frozenset({b"cross-site", b"same-site"})
_HOST = re.compile(r"(?P<name>\[[^]]*\]|[^:]*)(:[0-9]*)?")

logger = structlog.get_logger("threadwire.http")


class TrustedSource:
    """Reject requests that a foreign page could trick a browser into sending: those with a foreign Host, and those with
    a foreign Origin unless they only read. A server on loopback is reachable from every page the user visits.

    A route whose method is safe but that changes something must call `is_foreign` or `reject_foreign`."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], origins: re.Pattern[str]) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins
        self._rejected: set[str] = set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] not in ("http", "websocket"):
            return self._app(scope, receive, send)
        headers = dict(scope["headers"])
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) > 1:  # a proxy may have checked a different one
            return problem(400, "The request has more than one Host header")(scope, receive, send)
        host = hosts[0].decode("latin-1") if hosts else ""
        if "*" not in self._hosts and _host_name(host) not in self._hosts:
            return problem(421, "This server does not serve that host name")(scope, receive, send)
        origin = headers.get(b"origin")
        if origin is None:
            # Browsers send no Origin for a link or an image, but they do send Sec-Fetch-Site.
            scope[FOREIGN] = headers.get(b"sec-fetch-site") in _FOREIGN_SITES
        elif not self._accepts(text := origin.decode("latin-1"), host):
            self._log_rejected(text)
            if scope.get("method") not in _SAFE_METHODS:
                return problem(403, _REJECTED)(scope, receive, send)
            scope[FOREIGN] = True
        return self._app(scope, receive, send)

    def _accepts(self, origin: str, host: str) -> bool:
        return self._origins.fullmatch(origin) is not None or origin.partition("://")[2] == host

    def _log_rejected(self, origin: str) -> None:
        """Log each origin once. The browser hides from the page why a request was rejected, even for a read."""
        if origin in self._rejected or len(self._rejected) >= MAX_LOGGED_ORIGINS:
            return
        self._rejected.add(origin)
        logger.warning(
            "origin_rejected",
            origin=origin[:200],
            hint="To let its pages call this server, add it to THREADWIRE_ALLOWED_ORIGINS or to http.cors.",
        )


def is_foreign(request: Request) -> bool:
    """Whether a foreign page may have caused this request."""
    return bool(request.scope.get(FOREIGN))


def reject_foreign(request: Request) -> None:
    """Raise the same error as for a write if a foreign page may have caused this request."""
    if is_foreign(request):
        raise HTTPException(403, _REJECTED)


@lru_cache(maxsize=64)
def _host_name(host: str) -> str:
    """A Host header without its port; empty if it is malformed."""
    matched = _HOST.fullmatch(host)
    if matched is None:
        return ""
    return matched["name"] if host.startswith("[") else matched["name"].lower()
