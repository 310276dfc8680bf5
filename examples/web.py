"""The web pages of the examples, served at the same address as the agents. `make run` builds them in the background."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

DASHBOARD = Path(__file__).parent / "dashboard-page" / "dist"
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


def add_slash(request: Request) -> Response:
    return RedirectResponse("dashboard/")  # relative, so that it works under a prefix


app = Starlette(routes=[Route("/dashboard", add_slash), Mount("/dashboard", BuiltPage(DASHBOARD))])
