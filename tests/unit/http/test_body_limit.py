import json

import pytest
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel

from threadwire.http.body_limit import BodyLimit
from threadwire.http.json_route import JsonRoute
from threadwire.http.problems import install

pytestmark = pytest.mark.anyio


class Exchange:
    """A request in chunks, and its response."""

    def __init__(self, *chunks: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.scope = {"type": "http", "method": "POST", "path": "/", "headers": list(headers)}
        self._chunks = list(chunks)
        self.sent: list[dict] = []
        self.received = 0
        self.incomplete = False

    async def receive(self):
        if not self._chunks:
            return {"type": "http.disconnect"}
        self.received += 1
        chunk = self._chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(self._chunks) or self.incomplete}

    async def send(self, message):
        self.sent.append(message)

    @property
    def status(self):
        return self.sent[0]["status"]


async def read_everything(scope, receive, send):
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        size += len(message["body"])
        more = message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


@pytest.mark.parametrize("chunks", [[b""], [b"x" * 10], [b"x" * 4, b"y" * 6], [b"x"] * 10])
async def test_body_within_the_limit_passes(chunks):
    exchange = Exchange(*chunks)
    await BodyLimit(read_everything, 10)(exchange.scope, exchange.receive, exchange.send)
    assert exchange.status == 200
    assert exchange.sent[1]["body"] == str(sum(map(len, chunks))).encode()


@pytest.mark.parametrize("chunks", [[b"x" * 11], [b"x" * 10, b"y"], [b"x"] * 1000])
async def test_body_is_rejected_as_soon_as_it_exceeds_the_limit(chunks):
    exchange = Exchange(*chunks)
    await BodyLimit(read_everything, 10)(exchange.scope, exchange.receive, exchange.send)
    assert exchange.status == 413
    assert exchange.received <= 11
    assert json.loads(exchange.sent[1]["body"]) == {"detail": "The request body is larger than 10 bytes"}


@pytest.mark.parametrize("declared", [b"11", b"9" * 20, b"9" * 5000, b"0" * 5000 + b"2", b"-1", b"ten", b"", b"\xb2"])
async def test_declared_length_that_is_too_large_or_invalid_is_rejected_without_reading(declared):
    exchange = Exchange(b"x", headers=((b"content-length", declared),))
    await BodyLimit(read_everything, 10)(exchange.scope, exchange.receive, exchange.send)
    assert exchange.status == 413
    assert exchange.received == 0


class Text(BaseModel):
    text: str = ""


@pytest.mark.parametrize("limit", [10, 1000])
async def test_incomplete_request_is_not_an_internal_error(limit):
    """If the error reached the web server, it would log a traceback."""
    app = FastAPI()
    install(app)
    router = APIRouter(route_class=JsonRoute)

    @router.post("/")
    async def endpoint(body: Text) -> None: ...

    app.include_router(router)
    app.add_middleware(BodyLimit, limit=limit)
    exchange = Exchange(b'{"text": "hello', headers=((b"transfer-encoding", b"chunked"),))
    exchange.scope |= {"query_string": b"", "root_path": ""}
    exchange.incomplete = True
    await app(exchange.scope, exchange.receive, exchange.send)
    assert exchange.status == (400 if limit == 1000 else 413)


async def test_error_of_the_application_is_raised():
    async def failing(scope, receive, send):
        raise KeyError("mine")

    exchange = Exchange(b"x")
    with pytest.raises(KeyError, match="mine"):
        await BodyLimit(failing, 10)(exchange.scope, exchange.receive, exchange.send)
