"""Which requests a route handles."""

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from starlette.routing import Mount, Router

from threadwire.http import problems
from threadwire.http.json_route import JsonRoute

pytestmark = pytest.mark.anyio


def api() -> FastAPI:
    router = APIRouter(route_class=JsonRoute)

    @router.get("/things/{name}")
    async def get_thing(name: str) -> str:
        return name

    @router.get("/files/{name:path}")
    async def get_file(name: str) -> str:
        return name

    app = FastAPI()
    problems.install(app)
    app.router.routes += router.routes
    return app


@pytest.fixture
async def http():
    app = Router([Mount("/api/v1", app=api())])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost/api/v1") as client:
        yield client


@pytest.mark.parametrize("path", ["/things%2fa", "/things%2Fa", "/files%2fa", "/files%2fa/b"])
async def test_encoded_slash_does_not_separate_segments(http, path):
    response = await http.get(path)
    assert (response.status_code, response.json()) == (404, {"detail": "Not Found"})


async def test_encoded_slash_in_the_prefix_is_not_found(http):
    assert (await http.get("http://localhost/api%2fv1/things/a")).status_code == 404


@pytest.mark.parametrize(
    ("path", "name"),
    [("/things/a%20b", "a b"), ("/things/a%252fb", "a%2fb"), ("/files/a%2fb/c%20d", "a/b/c d"), ("/files/a/b", "a/b")],
)
async def test_a_parameter_is_decoded(http, path, name):
    """One that matches several segments may contain encoded slashes."""
    assert (await http.get(path)).json() == name
