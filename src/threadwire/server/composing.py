"""One application out of several: the API, the user's own routes, a prefix."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from threadwire.http.problems import problem

ALWAYS_OURS = ("/ok", "/metrics")
"""What watches a server must be able to rely on, whatever routes the user has."""


def with_own_routes(own: Starlette, api: FastAPI) -> ASGIApp:
    """The user's application, with the API behind its routes: its middleware sees every request, its routes come
    first, and what none of them answers is the API's."""
    first = [_OurRoute(path, endpoint=api) for path in ALWAYS_OURS]
    own.router.routes[:] = [*first, *_written_routes(own), _OurMount("", app=api)]
    if isinstance(own, FastAPI):
        _describe_together(own, api)
    return own


def below(prefix: str, app: ASGIApp, api: FastAPI) -> ASGIApp:
    """Everything under `prefix`; only `/ok` is answered without it too, for what checks whether the server is there."""
    return Router([Route("/ok", endpoint=api), Mount(prefix, app=app)], redirect_slashes=False, default=_not_found)


def pages_of(own: Starlette) -> list[str]:
    """Where the user's application serves folders of HTML: what somebody may want to open in a browser. Other routes
    may be pages too, but nothing tells."""
    return _pages(_written_routes(own), "")


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
    """A route that was added to the user's application, which may be composed again."""


class _OurMount(Mount):
    """Likewise."""


def _written_routes(own: Starlette) -> list[BaseRoute]:
    """Without ours, and without the pages that FastAPI adds about itself: ours tell of both."""
    written = [route for route in own.router.routes if not isinstance(route, (_OurRoute, _OurMount))]
    if not isinstance(own, FastAPI):
        return written
    pages = {own.openapi_url, own.docs_url, own.redoc_url, own.swagger_ui_oauth2_redirect_url}
    return [route for route in written if not (type(route) is Route and route.path in pages)]


def _describe_together(own: FastAPI, api: FastAPI) -> None:
    ours, theirs = api.openapi, own.openapi

    def together() -> dict[str, Any]:
        one, other = ours(), theirs()
        schemas = {**_schemas(one), **_schemas(other)}
        return {**one, "paths": {**one["paths"], **other["paths"]}, "components": {"schemas": schemas}}

    api.openapi = together  # type: ignore[method-assign]  # FastAPI's own way to change it


def _schemas(description: dict[str, Any]) -> dict[str, Any]:
    schemas: dict[str, Any] = description.get("components", {}).get("schemas", {})
    return schemas
