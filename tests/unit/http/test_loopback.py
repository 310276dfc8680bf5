"""Requests from inside the process: from the API's own loop, from another loop, and from threads."""

import asyncio
import threading
from contextvars import ContextVar

import anyio
import anyio.to_thread
import httpx
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from threadwire.http.loopback import Loopback, LoopbackTransport, SyncLoopbackTransport

pytestmark = pytest.mark.anyio

surrounding: ContextVar[str] = ContextVar("surrounding", default="nothing")


class Api:
    """An application on a loop of its own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.sent = 0
        self.disconnected = threading.Event()
        reads = [Route(f"/{each.__name__}", each) for each in (self.numbers, self.fail, self.silence)]
        self.app = Starlette(routes=[Route("/echo", self.echo, methods=["POST"]), *reads])
        self.loopback = Loopback(self.app, self.loop)

    async def echo(self, request: Request):
        body = (await request.body()).decode()
        return JSONResponse({"query": dict(request.query_params), "body": body, "context": surrounding.get()}, 201)

    async def numbers(self, request: Request):
        async def count():
            while True:
                self.sent += 1
                yield f"{self.sent}\n"

        return StreamingResponse(count(), background=BackgroundTask(self.disconnected.set))

    async def fail(self, request: Request):
        async def one():
            yield "1\n"
            raise ValueError("halfway")

        return StreamingResponse(one())

    async def silence(self, request: Request):
        await asyncio.sleep(60)


@pytest.fixture
def api():
    api = Api()
    api.thread.start()
    yield api
    api.loop.call_soon_threadsafe(api.loop.stop)
    api.thread.join()
    api.loop.close()


def open_client(api, **options):
    return httpx.AsyncClient(base_url="http://api", transport=LoopbackTransport(lambda: api.loopback), **options)


def open_sync_client(api, **options):
    return httpx.Client(base_url="http://api", transport=SyncLoopbackTransport(lambda: api.loopback), **options)


ECHO = {"query": {"a": "é"}, "body": "hello", "context": "nothing"}


async def test_a_request_from_another_loop_is_executed_in_a_context_of_its_own(api):
    surrounding.set("a run")
    async with open_client(api) as client:
        response = await client.post("/echo", params={"a": "é"}, content="hello")
    assert (response.status_code, response.json()) == (201, ECHO)


async def test_a_request_from_the_same_loop(api):
    async def call():
        async with open_client(api) as client:
            return await client.post("/echo", params={"a": "é"}, content="hello")

    response = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), api.loop))
    assert response.json() == ECHO


def test_a_request_from_a_thread(api):
    with open_sync_client(api) as client:
        response = client.post("/echo", params={"a": "é"}, content="hello")
    assert (response.status_code, response.json()) == (201, ECHO)


async def test_a_sync_request_on_the_servers_own_loop_is_rejected(api):
    async def call():
        open_sync_client(api).post("/echo")

    with pytest.raises(RuntimeError, match="would block the server"):
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), api.loop))


async def test_a_stream_arrives_while_it_is_produced_and_no_faster_than_it_is_read(api):
    async with open_client(api) as client, client.stream("GET", "/numbers") as response:
        lines = response.aiter_lines()
        assert [await anext(lines) for _ in range(3)] == ["1", "2", "3"]
        await anyio.wait_all_tasks_blocked()
        assert api.sent <= 5
    assert await anyio.to_thread.run_sync(api.disconnected.wait, 10)


def test_a_sync_stream_arrives_while_it_is_produced(api):
    with open_sync_client(api) as client, client.stream("GET", "/numbers") as response:
        lines = response.iter_lines()
        assert [next(lines) for _ in range(3)] == ["1", "2", "3"]
    assert api.disconnected.wait(10)


async def test_a_response_that_breaks_off_is_an_error(api):
    async with open_client(api) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/fail")


async def test_the_read_timeout_applies(api):
    async with open_client(api, timeout=0.05) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/silence")


def test_the_read_timeout_of_a_sync_client_applies(api):
    with open_sync_client(api, timeout=0.05) as client, pytest.raises(httpx.ReadTimeout):
        client.get("/silence")


async def test_a_loopback_is_an_application_for_other_transports(api):
    transport = httpx.ASGITransport(api.loopback)
    async with httpx.AsyncClient(base_url="http://api", transport=transport) as client:
        response = await client.post("/echo", params={"a": "é"}, content="hello")
    assert response.json() == ECHO
