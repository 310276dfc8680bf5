"""Plain requests bypass FastAPI's dispatch and get the same responses."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, Body, FastAPI, Header, Query, Request
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Mount, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from threadwire.errors import Conflict
from threadwire.http import problems
from threadwire.http.direct_routes import DirectRoutes
from threadwire.http.json_route import JsonRoute
from threadwire.http.problems import JsonResponse

pytestmark = pytest.mark.anyio


class Thing(BaseModel):
    size: int
    names: list[str] = []


class OwnRoute(JsonRoute):
    """Handles requests in its own way."""

    def get_route_handler(self) -> Any:
        async def handle(request: Request) -> JsonResponse:
            return JsonResponse("own")

        return handle


def api() -> FastAPI:
    router, own = APIRouter(route_class=JsonRoute), APIRouter(route_class=OwnRoute)

    @router.get("/things/first")
    async def get_first() -> JsonResponse:
        return JsonResponse("first")

    @router.get("/things/{name}")
    async def get_thing(
        name: str, limit: Annotated[int, Query(ge=1)] = 5, prefer: Annotated[str | None, Header()] = None
    ) -> JsonResponse:
        if name == "conflict":
            raise Conflict("It exists already")
        if name == "teapot":
            raise HTTPException(418)
        return JsonResponse([name, limit, prefer])

    @router.post("/things/{name}")
    async def put_thing(name: str, body: Annotated[Thing, Body()]) -> JsonResponse:
        return JsonResponse([name, body.size, body.names])

    @router.get("/asked/{name}")
    async def asks_for_request(name: str, request: Request) -> JsonResponse:
        return JsonResponse([name, request.url.path])

    @router.get("/counted/{number}")
    async def takes_a_number(number: int) -> JsonResponse:
        return JsonResponse(number)

    @router.get("/required")
    async def requires_query(q: str) -> JsonResponse:
        return JsonResponse(q)

    @router.get("/plain")
    async def returns_no_response() -> dict[str, int]:
        return {"a": 1}

    @router.get("/files/{path:path}")
    async def get_file(path: str) -> JsonResponse:
        return JsonResponse(["file", path])

    @router.get("/files/{name}/size")
    async def never_reached(name: str) -> JsonResponse:
        return JsonResponse("never")

    @own.get("/own")
    async def own_route() -> JsonResponse:
        return JsonResponse("not own")

    app = FastAPI()
    problems.install(app)
    app.router.routes += [*router.routes, *own.routes]
    return app


class Requests:
    """The paths of the requests that FastAPI dispatched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.paths: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        await self._app(scope, receive, send)


@pytest.fixture
def dispatched() -> Requests:
    return Requests(api())


def direct(dispatched: Requests) -> DirectRoutes:
    app = dispatched._app
    assert isinstance(app, FastAPI)
    return DirectRoutes(dispatched, app.router.routes)


@pytest.fixture
async def http(dispatched: Requests) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(direct(dispatched), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


@pytest.fixture
async def reference() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(api(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def assert_same(http: httpx.AsyncClient, reference: httpx.AsyncClient, *request: Any, **options: Any) -> None:
    response, expected = await http.request(*request, **options), await reference.request(*request, **options)
    assert (response.status_code, response.content) == (expected.status_code, expected.content)
    assert response.headers == expected.headers


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("GET", "/things/first", {}),
        ("GET", "/things/a", {}),
        ("GET", "/things/a.b~c", {}),
        ("GET", "/things/conflict", {}),
        ("GET", "/things/teapot", {}),
        ("POST", "/things/a", {"json": {"size": 1}}),
        ("POST", "/things/a", {"content": b'{"size": 1}', "headers": {"content-type": "text/plain"}}),
        ("POST", "/things/a?limit=0", {"json": {"size": 1, "names": ["b"]}}),
        ("POST", "/things/a", {"content": b"{"}),
        ("POST", "/things/a", {"content": b"[" * 200}),
    ],
)
async def test_plain_request_is_called_directly(http, reference, dispatched, method, path, options):
    await assert_same(http, reference, method, path, **options)
    assert dispatched.paths == []


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("GET", "/things/a?limit=2", {}),
        ("GET", "/things/a?limit=0", {}),
        ("GET", "/things/a", {"headers": {"Prefer": "b"}}),
        ("GET", "/things/a%20b", {}),
        ("GET", "/things/a%2fb", {}),
        ("GET", "/things/", {}),
        ("GET", "/things", {}),
        ("GET", "/a/b/c/d/e/f/g/h/i/j", {}),
        ("HEAD", "/things/a", {}),
        ("PUT", "/things/a", {}),
        ("BREW", "/things/a", {}),
        ("POST", "/things/a", {}),
        ("POST", "/things/a", {"json": {"size": "x"}}),
        ("POST", "/things/a", {"json": [1]}),
        ("GET", "/asked/a", {}),
        ("GET", "/counted/7", {}),
        ("GET", "/counted/x", {}),
        ("GET", "/required", {}),
        ("GET", "/required?q=a", {}),
        ("GET", "/plain", {}),
        ("GET", "/own", {}),
    ],
)
async def test_other_request_goes_through_fastapi(http, reference, dispatched, method, path, options):
    await assert_same(http, reference, method, path, **options)
    assert len(dispatched.paths) == 1


async def test_routes_are_matched_in_order(http, reference):
    for path in ("/files/a", "/files/a/size", "/things/first"):
        await assert_same(http, reference, "GET", path)
    assert (await http.get("/files/a/size")).json() == ["file", "a/size"]


async def test_body_in_several_parts_is_read_to_its_end(http, reference, dispatched):
    async def parts(*each: bytes) -> AsyncIterator[bytes]:
        for part in each:
            yield part

    assert (await http.post("/things/a", content=parts(b'{"si', b'ze": 1', b"}"))).json() == ["a", 1, []]
    assert dispatched.paths == []
    assert (await http.post("/things/a", content=parts(b'{"si', b'ze": "x"}'))).status_code == 422


async def test_incomplete_body_is_not_a_server_error(dispatched):
    messages: list[Any] = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/things/a", "raw_path": b"/things/a", "headers": []}
    await direct(dispatched)({**scope, "query_string": b""}, receive, send)
    assert sent[0]["status"] == 400


async def test_request_below_a_prefix_goes_through_fastapi(dispatched):
    mounted = Router([Mount("/api", app=direct(dispatched))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(mounted), base_url="http://localhost") as client:
        assert (await client.get("/api/things/a")).json() == ["a", 5, None]
    assert dispatched.paths == ["/api/things/a"]


@pytest.mark.parametrize("headers", [None, {}, {"content-location": "/a"}])
def test_json_response_has_starlettes_headers(headers: dict[str, str] | None) -> None:
    assert JsonResponse([1], 201, headers).raw_headers == JSONResponse([1], 201, headers).raw_headers
