"""The pages of the examples, at the same address as their agents. `make run` builds them while it serves."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

DASHBOARD = Path(__file__).parent / "dashboard-page" / "dist"
NOT_BUILT = """\
This page is not built yet. `make run` builds it beside the server, with Node 20 or later; the first time that takes a
minute or two. It will show here by itself.
"""


class BuiltPage(StaticFiles):
    """A folder that may be built, and built again, while it is served. Its `index.html` is written last."""

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, html=True, check_dir=False)
        self._index = folder / "index.html"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        built = self._index.is_file()
        answer = super().__call__ if built else PlainTextResponse(NOT_BUILT, 503, headers={"refresh": "2"})
        await answer(scope, receive, send)


def with_slash(request: Request) -> Response:
    return RedirectResponse("dashboard/")  # relative, so that it holds under a prefix


app = Starlette(routes=[Route("/dashboard", with_slash), Mount("/dashboard", BuiltPage(DASHBOARD))])
