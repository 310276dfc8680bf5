"""A response reaches the client in order and in as few writes as possible; a request is limited in size."""

import asyncio
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from threadwire.server.connections import Connection, HeadWithBody

pytestmark = pytest.mark.anyio


class RecordingTransport(asyncio.Transport):
    """A transport that records what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def open_response() -> tuple[RecordingTransport, HeadWithBody]:
    transport = RecordingTransport()
    return transport, HeadWithBody(transport, asyncio.get_running_loop())


async def test_a_head_is_sent_with_a_body_that_follows_immediately() -> None:
    transport, response = open_response()
    response.write(b"head ")
    assert transport.writes == []
    response.write(b"body ")
    response.write(b"more")
    assert transport.writes == [b"head body ", b"more"]
    await asyncio.sleep(0)
    assert transport.writes == [b"head body ", b"more"]


async def test_a_head_waits_for_its_body_at_most_one_loop_iteration() -> None:
    transport, response = open_response()
    response.write(b"head ")
    await asyncio.sleep(0)
    assert transport.writes == [b"head "]
    response.write(b"body")
    assert transport.writes == [b"head ", b"body"]


async def test_a_head_is_sent_before_the_connection_is_closed() -> None:
    transport, response = open_response()
    response.write(b"head")
    response.close()
    assert (transport.writes, transport.closed) == ([b"head"], True)
    await asyncio.sleep(0)


async def test_nothing_is_written_after_the_client_disconnected() -> None:
    transport, response = open_response()
    response.write(b"head")
    transport.close()
    await asyncio.sleep(0)
    assert (transport.writes, response.is_closing()) == ([], True)


async def respond(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def connect(application: Any) -> tuple[Connection, RecordingTransport, ServerState]:
    config = Config(application, log_config=None)
    config.load()
    transport, state = RecordingTransport(), ServerState()
    connection = Connection(config=config, server_state=state, app_state={})
    connection.connection_made(transport)
    return connection, transport, state


async def test_every_response_is_sent_in_one_write() -> None:
    connection, transport, state = connect(respond)
    for _ in range(2):
        connection.data_received(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
    assert [(data[:15], data[-4:]) for data in transport.writes] == [(b"HTTP/1.1 200 OK", b"\r\nok")] * 2
    connection.connection_lost(None)


CHUNKED = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
KILOBYTE = b"x" * 1000


def feed(connection: Connection, transport: RecordingTransport, data: bytes) -> int:
    """Send `data` again and again until the server closes the connection; how many bytes it took."""
    for number in range(1, 1000):
        connection.data_received(data)
        if transport.closed:
            return number * len(data)
    raise AssertionError("the connection stays open")


@pytest.mark.parametrize(
    ("start", "more"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n", b"a: " + KILOBYTE + b"\r\n", id="headers"),
        pytest.param(b"GET / HTTP/1.1\r\na: ", KILOBYTE, id="one header"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\n", b"a: " + KILOBYTE + b"\r\n", id="trailers"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\na: ", KILOBYTE, id="one trailer"),
        pytest.param(CHUNKED + b"1;a=", KILOBYTE, id="the line before the first chunk"),
        pytest.param(CHUNKED + b"1\r\na\r\n1;a=", KILOBYTE, id="the line before a later chunk"),
    ],
)
async def test_head_and_trailers_are_limited(start: bytes, more: bytes) -> None:
    connection, transport, state = connect(respond)
    connection.data_received(start)
    assert 60_000 < feed(connection, transport, more) < 70_000
    assert transport.writes[0].startswith(b"HTTP/1.1 431 ")
    connection.connection_lost(None)
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)


async def test_trailers_that_are_too_large_abort_a_response_that_has_started() -> None:
    connected = asyncio.Event()

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        connected.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    connection, transport, state = connect(stream)
    connection.data_received(CHUNKED + b"0\r\n")
    await asyncio.wait_for(connected.wait(), 5)
    feed(connection, transport, b"a: " + KILOBYTE + b"\r\n")
    assert not any(b"431" in data for data in transport.writes)
    connection.connection_lost(None)
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)


@pytest.mark.parametrize("size", [1, 1000, 100_000])
async def test_body_is_not_limited_whatever_its_chunks(size: int) -> None:
    received = bytearray()

    async def count(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            received.extend(message["body"])
            more = message["more_body"]
        await respond(scope, receive, send)

    connection, transport, state = connect(count)
    connection.data_received(CHUNKED)
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    count_of_chunks = max(3, 200_000 // len(chunk))
    body = chunk * count_of_chunks
    for start in range(0, len(body), 70_001):  # the data ends anywhere in a chunk, also in the line before it
        connection.data_received(body[start : start + 70_001])
        await asyncio.sleep(0)
    connection.data_received(b"0\r\na: b\r\n\r\n")
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
    assert len(received) == size * count_of_chunks
    assert transport.writes[0].startswith(b"HTTP/1.1 200 OK")
    connection.connection_lost(None)


async def test_trailers_are_not_headers() -> None:
    seen = []

    async def show(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])
        await respond(scope, receive, send)

    connection, _, state = connect(show)
    connection.data_received(CHUNKED + b"0\r\norigin: forged\r\n\r\n")
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
    assert seen == [(b"host", b"here"), (b"transfer-encoding", b"chunked")]
    connection.connection_lost(None)
