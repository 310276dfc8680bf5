"""Calling plain endpoints without FastAPI's dispatch, which takes longer than the endpoints of the busiest routes."""

import re
from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple

from fastapi import Request
from starlette.convertors import StringConvertor
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from threadwire.http import problems
from threadwire.http.json_route import JsonRoute
from threadwire.http.plain_endpoint import PlainEndpoint
from threadwire.http.request_body import body_first, read_body

_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
_MAX_SLASHES = 8


class DirectRoutes:
    """Middleware in front of FastAPI's own dispatch. It finds the route that FastAPI would find and calls its endpoint;
    whatever is not plain (see `PlainEndpoint`) goes to FastAPI."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._candidates = {
            (method, slashes): _candidates(routes, method, slashes)
            for method in _METHODS
            for slashes in range(1, _MAX_SLASHES + 1)
        }

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http" and not scope.get("root_path") and b"%" not in (scope.get("raw_path") or b"%"):
            path = scope["path"]
            for pattern, endpoint in self._candidates.get((scope["method"], path.count("/")), ()):
                if (matched := pattern.match(path)) is not None:
                    if endpoint is None:
                        break
                    return self._call(endpoint, matched.groupdict(), scope, receive, send)
        return self._app(scope, receive, send)

    async def _call(
        self, endpoint: PlainEndpoint, path_params: dict[str, Any], scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            body = await read_body(receive) if endpoint.takes_body else b""
            arguments = endpoint.bind(scope, path_params, body)
            if arguments is not None:
                response = await endpoint.call(**arguments)
        except problems.EXPECTED as error:
            arguments, response = {}, problems.response_to(Request(scope, receive), error)
        if arguments is None:
            await self._app(scope, body_first(body, receive) if endpoint.takes_body else receive, send)
        else:
            await response(scope, receive, send)


class _Candidate(NamedTuple):
    pattern: re.Pattern[str]
    endpoint: PlainEndpoint | None
    """None if FastAPI has to handle what matches the pattern."""


def _candidates(routes: Sequence[BaseRoute], method: str, slashes: int) -> list[_Candidate]:
    """The routes that may match, in order."""
    found = []
    for route in routes:
        if isinstance(route, Route) and method not in (route.methods or {method}):
            continue
        if isinstance(route, Route) and _is_fixed(route) and route.path.count("/") != slashes:
            continue
        # A subclass may handle its requests differently.
        endpoint = PlainEndpoint.of(route) if type(route) is JsonRoute else None
        found.append(_Candidate(getattr(route, "path_regex", _ANYTHING), endpoint))
    return found


_ANYTHING = re.compile("")


def _is_fixed(route: Route) -> bool:
    """Whether every path that matches the route has as many segments as the route."""
    return all(isinstance(convertor, StringConvertor) for convertor in route.param_convertors.values())
