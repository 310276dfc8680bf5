"""Compose one application from the API, the project's own routes and a prefix."""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from threadwire.http.problems import problem

RESERVED_PATHS = ("/ok", "/metrics")
"""Paths that monitoring relies on. The project's routes cannot replace them."""


def with_user_routes(own: Starlette, api: FastAPI) -> ASGIApp:
    """Return the project's application with the API behind its routes. Its middleware sees every request and its routes
    match first; all other requests go to the API."""
    first = [_OurRoute(path, endpoint=api) for path in RESERVED_PATHS]
    own.router.routes[:] = [*first, *_user_routes(own), _OurMount("", app=api)]
    if isinstance(own, FastAPI):
        _merge_openapi(own, api)
    return own


def authenticate_routes(own: Starlette, authentication: Callable[[ASGIApp], ASGIApp], *, first: bool) -> None:
    """Make the project's routes require a credential too, checked before or after the project's middleware."""
    position = 0 if first else len(own.user_middleware)
    own.user_middleware.insert(position, Middleware(authentication))


def mount_under(prefix: str, app: ASGIApp, api: FastAPI) -> ASGIApp:
    """Mount `app` under `prefix`. Only `/ok` is also served without the prefix, for health checks."""
    return Router([Route("/ok", endpoint=api), Mount(prefix, app=app)], redirect_slashes=False, default=_not_found)


def html_pages(own: Starlette) -> list[str]:
    """Return the paths where the project's application serves folders of HTML, to open in a browser. Other routes may
    be pages too, but cannot be recognized."""
    return _pages(_user_routes(own), "")


def _pages(routes: Sequence[BaseRoute], prefix: str) -> list[str]:
    found = []
    for mount in routes:
        if not isinstance(mount, Mount) or mount.param_convertors.keys() != {"path"}:
            continue
        path = prefix + mount.path
        if isinstance(mount.app, StaticFiles):
            found += [f"{path}/"] if mount.app.html else []
        else:
            found += _pages(mount.routes, path)
    return found


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await problem(404, "Not Found")(scope, receive, send)
    else:
        await WebSocketClose()(scope, receive, send)


class _OurRoute(Route):
    """A route that we added to the project's application. It is removed if the application is composed again."""


class _OurMount(Mount):
    """A mount that we added, like `_OurRoute`."""


def _user_routes(own: Starlette) -> list[BaseRoute]:
    """Return the routes without ours and without FastAPI's documentation pages; our pages describe both APIs."""
    routes = [route for route in own.router.routes if not isinstance(route, (_OurRoute, _OurMount))]
    if not isinstance(own, FastAPI):
        return routes
    pages = {own.openapi_url, own.docs_url, own.redoc_url, own.swagger_ui_oauth2_redirect_url}
    return [route for route in routes if not (type(route) is Route and route.path in pages)]


def _merge_openapi(own: FastAPI, api: FastAPI) -> None:
    ours, theirs = api.openapi, own.openapi
    sources: tuple[dict[str, Any], dict[str, Any]] | None = None
    result: dict[str, Any] = {}

    def merged() -> dict[str, Any]:
        """Returns the same object until one of the two changes, as FastAPI does."""
        nonlocal sources, result
        one, other = ours(), theirs()
        if sources is None or one is not sources[0] or other is not sources[1]:
            schemas = {**_schemas(one), **_schemas(other)}
            result = {**one, "paths": {**one["paths"], **other["paths"]}, "components": {"schemas": schemas}}
            sources = one, other
        return result

    api.openapi = merged  # type: ignore[method-assign]  # FastAPI's documented way to extend the schema


def _schemas(description: dict[str, Any]) -> dict[str, Any]:
    schemas: dict[str, Any] = description.get("components", {}).get("schemas", {})
    return schemas
