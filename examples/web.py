"""The web pages of the examples, served at the same address as the agents. `make run` builds them in the background."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

PAGES = ("chat", "dashboard", "timeline")
"""The names of the pages: /dashboard is built in dashboard-page/dist."""
NOT_BUILT = """\
This page is not built yet. `make run` builds it in the background, which requires Node 20 or later. The first build
takes a minute or two. This page reloads automatically.
"""


class BuiltPage(StaticFiles):
    """A folder that may be built and rebuilt while it is served. The build writes `index.html` last."""

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, html=True, check_dir=False)
        self._index = folder / "index.html"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        built = self._index.is_file()
        response = super().__call__ if built else PlainTextResponse(NOT_BUILT, 503, headers={"refresh": "2"})
        await response(scope, receive, send)


def routes_of(page: str) -> tuple[Route, Mount]:
    def add_slash(request: Request) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"{page}/{query}")  # relative, so that it works under a prefix

    built = BuiltPage(Path(__file__).parent / f"{page}-page" / "dist")
    return Route(f"/{page}", add_slash), Mount(f"/{page}", built)


app = Starlette(routes=[route for page in PAGES for route in routes_of(page)])
