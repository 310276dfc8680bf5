import json
from itertools import product

import pytest
from fastapi import APIRouter, FastAPI
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from threadwire.errors import Invalid, TooDeep
from threadwire.http.limits import MAX_DEPTH, BodyLimit, JsonRoute, _depth_beyond, parse_json
from threadwire.http.problems import install

pytestmark = pytest.mark.anyio

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.sampled_from('ab"\\[]{}\n'), max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(st.sampled_from('a"\\[{'), max_size=4), inner),
    max_leaves=40,
)


def depth_of(value):
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@given(values)
def test_json_is_read_as_it_was_written(value):
    assert parse_json(json.dumps(value).encode()) == value


@given(values, st.integers(MAX_DEPTH - 8, MAX_DEPTH + 8))
def test_exactly_what_is_deeper_than_the_limit_is_refused(value, levels):
    """Brackets in texts and keys do not count, escaped quotes do not confuse."""
    nested = value
    for level in range(levels):
        nested = [nested, '["{'] if level % 2 else {'a"]}': nested}
    body = json.dumps(nested).encode()
    if depth_of(nested) > MAX_DEPTH:
        with pytest.raises(TooDeep):
            parse_json(body)
    else:
        assert parse_json(body) == nested


def test_many_brackets_side_by_side_are_not_deep():
    assert len(parse_json(b"[" + b",".join([b"[]"] * 100_000) + b"]")) == 100_000


@pytest.mark.parametrize("body", [b"[" * 1_000_000, b'{"a":' * 200_000, b"[" * 101 + b"]" * 101])
def test_depth_is_judged_without_recursion(body):
    with pytest.raises(TooDeep):
        parse_json(body)


def test_text_full_of_brackets_is_not_deep():
    assert parse_json(json.dumps("[" * 1_000_000).encode()) == "[" * 1_000_000


def test_an_endless_text_takes_no_endless_time():
    with pytest.raises(Invalid):
        parse_json(b'"' + b"\\" * 1_000_001 + b"[" * 200)


MEGABYTE = 1_000_000
ENDLESS = [
    b'"' + b'\\"' * (MEGABYTE // 2),
    b'"' + b"\\" * (MEGABYTE + 1),
    b'"' * (MEGABYTE + 1),
    b'"\\' * (MEGABYTE // 2),
    b'""\\' * (MEGABYTE // 3) + b'"',
    b'[\\"' * (MEGABYTE // 3),
    b'"\\\n' * (MEGABYTE // 3),
]
"""Texts that never end, as far as one can tell from any of their quotes."""


@pytest.mark.parametrize("text", ENDLESS, ids=range(len(ENDLESS)))
def test_a_text_without_an_end_is_gone_over_once(text):
    """A second look at each of its quotes would take hours."""
    with pytest.raises((Invalid, TooDeep)):
        parse_json(b"[1," * MAX_DEPTH + b"[1]," + text)


def test_depth_is_what_a_reader_of_one_byte_after_another_finds():
    for length in range(8):
        for body in map(bytes, product(b'[]"\\a', repeat=length)):
            assert _depth_beyond(body, 0) == (depth_by_bytes(body) > 0), body


@given(
    st.lists(
        st.sampled_from([b"[[", b"{", b"]", b"}", b'"', b"\\", b'\\"', b"\n"]) | st.binary(max_size=2), max_size=60
    ).map(b"".join)
)
def test_so_it_is_in_any_bytes(body):
    assert [_depth_beyond(body, limit) for limit in range(8)] == [depth_by_bytes(body) > limit for limit in range(8)]


def depth_by_bytes(body):
    depth = deepest = 0
    text = escaped = False
    for byte in body:
        if escaped and byte in b'"\\':
            escaped = False
        elif byte in b"\\":
            escaped = True
        else:
            escaped = False
            if byte in b'"':
                text = not text
            elif not text and byte in b"[{]}":
                depth += 1 if byte in b"[{" else -1
                deepest = max(deepest, depth)
    return deepest


@pytest.mark.parametrize(
    "body", [b"", b"{", b"nope", b"\xff", b'"\\ud800"', b"[1,]", b"NaN", b"Infinity", b"1 2", b"'a'"]
)
def test_what_is_not_json_is_refused(body):
    with pytest.raises(Invalid, match=r"^Invalid JSON in request body$"):
        parse_json(body)


@given(st.binary(max_size=200))
def test_bytes_are_json_or_refused(body):
    try:
        parse_json(body)
    except Invalid:
        pass


# -- the size of a body ------------------------------------------------------------------------------------------------


class Exchange:
    """A request in pieces, and what was answered."""

    def __init__(self, *pieces: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.scope = {"type": "http", "method": "POST", "path": "/", "headers": list(headers)}
        self._pieces = list(pieces)
        self.sent: list[dict] = []
        self.taken = 0
        self.cut_off = False

    async def receive(self):
        if not self._pieces:
            return {"type": "http.disconnect"}
        self.taken += 1
        piece = self._pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces) or self.cut_off}

    async def send(self, message):
        self.sent.append(message)

    @property
    def status(self):
        return self.sent[0]["status"]


async def reads_everything(scope, receive, send):
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        size += len(message["body"])
        more = message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


@pytest.mark.parametrize("pieces", [[b""], [b"x" * 10], [b"x" * 4, b"y" * 6], [b"x"] * 10])
async def test_a_body_within_the_limit_passes(pieces):
    exchange = Exchange(*pieces)
    await BodyLimit(reads_everything, 10)(exchange.scope, exchange.receive, exchange.send)
    assert exchange.status == 200
    assert exchange.sent[1]["body"] == str(sum(map(len, pieces))).encode()


@pytest.mark.parametrize("pieces", [[b"x" * 11], [b"x" * 10, b"y"], [b"x"] * 1000])
async def test_a_body_beyond_the_limit_is_refused_as_soon_as_it_is_known(pieces):
    exchange = Exchange(*pieces)
    await BodyLimit(reads_everything, 10)(exchange.scope, exchange.receive, exchange.send)
    assert exchange.status == 413
    assert exchange.taken <= 11
    assert json.loads(exchange.sent[1]["body"]) == {"detail": "The request body is larger than 10 bytes"}


@pytest.mark.parametrize("declared", [b"11", b"9" * 20, b"9" * 5000, b"0" * 5000 + b"2", b"-1", b"ten", b"", b"\xb2"])
async def test_a_declared_length_that_is_too_large_or_none_is_refused_unread(declared):
    exchange = Exchange(b"x", headers=((b"content-length", declared),))
    await BodyLimit(reads_everything, 10)(exchange.scope, exchange.receive, exchange.send)
    assert exchange.status == 413
    assert exchange.taken == 0


class Given(BaseModel):
    text: str = ""


@pytest.mark.parametrize("limit", [10, 1000])
async def test_a_request_that_is_cut_off_is_no_defect(limit):
    """Raised further, it would be one to the web server, which writes a traceback into the log."""
    app = FastAPI()
    install(app)
    router = APIRouter(route_class=JsonRoute)

    @router.post("/")
    async def take(given: Given) -> None: ...

    app.include_router(router)
    app.add_middleware(BodyLimit, limit=limit)
    exchange = Exchange(b'{"text": "hello', headers=((b"transfer-encoding", b"chunked"),))
    exchange.scope |= {"query_string": b"", "root_path": ""}
    exchange.cut_off = True
    await app(exchange.scope, exchange.receive, exchange.send)
    assert exchange.status == (400 if limit == 1000 else 413)


async def test_an_error_of_the_application_is_its_own():
    async def fails(scope, receive, send):
        raise KeyError("mine")

    exchange = Exchange(b"x")
    with pytest.raises(KeyError, match="mine"):
        await BodyLimit(fails, 10)(exchange.scope, exchange.receive, exchange.send)
