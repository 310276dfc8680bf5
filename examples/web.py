"""The pages of the examples, at the same address as their agents. `make run` builds them."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

DASHBOARD = Path(__file__).parent / "dashboard-page" / "dist"


def not_built(request: Request) -> Response:
    return PlainTextResponse("This page is not built: `make page` builds it, with Node 20 or later.\n", 503)


def with_slash(request: Request) -> Response:
    return RedirectResponse("dashboard/")  # relative, so that it holds under a prefix


app = Starlette(
    routes=[Route("/dashboard", with_slash), Mount("/dashboard", StaticFiles(directory=DASHBOARD, html=True))]
    if DASHBOARD.is_dir()
    else [Route("/dashboard", not_built), Route("/dashboard/", not_built)]
)
