"""A response reaches the client in order and in as few writes as possible; a request is limited in size and time, and
connections in number."""

import asyncio
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from threadwire.http.connection_limit import ConnectionLimit
from threadwire.server.descriptors import HEADROOM
from threadwire.server.uvicorn_connection import MIN_BODY_RATE, Connection, HeadWithBody
from threadwire.server.waiting_connections import ConnectionLimits, WaitingConnections

pytestmark = pytest.mark.anyio


class RecordingTransport(asyncio.Transport):
    """A transport that records what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False
        self.aborted = False
        self.unread = 0

    def write(self, data: Any) -> None:
        assert not self.closed
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unread

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


def connect(
    application: Any, waiting: WaitingConnections | None = None, state: ServerState | None = None
) -> tuple[Connection, RecordingTransport, ServerState]:
    config = Config(application, interface="asgi3", log_config=None)
    config.load()
    transport, state = RecordingTransport(), state or ServerState()
    connection = Connection(config=config, server_state=state, app_state={}, waiting=waiting)
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
    """Send `data` repeatedly until the server closes the connection. Return the number of bytes sent."""
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


# Timeouts


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def timed() -> tuple[WaitingConnections, Clock]:
    clock = Clock()
    limits = ConnectionLimits(idle_seconds=4, head_seconds=2, body_seconds=3, response_seconds=5)
    return WaitingConnections(limits, clock), clock


def closes_within(waiting: WaitingConnections, clock: Clock, transport: RecordingTransport, limit: int = 20) -> int:
    """After how many seconds the connection is closed."""
    for seconds in range(limit):
        waiting.close_expired()
        if transport.closed:
            return seconds
        clock.now += 1
    raise AssertionError("the connection stays open")


HEAD = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "seconds", "written"),
    [
        (b"", 2, b""),
        (b"GET / HTTP/1.1\r\nhost: he", 2, b"HTTP/1.1 408 Request Timeout"),
        (b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 10\r\n\r\nx", 3, b"HTTP/1.1 408 Request Timeout"),
        (CHUNKED + b"1\r\na\r\n", 3, b"HTTP/1.1 408 Request Timeout"),
    ],
)
async def test_a_client_that_does_not_finish_its_request_is_disconnected(
    sent: bytes, seconds: int, written: bytes
) -> None:
    async def read(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    waiting, clock = timed()
    connection, transport, state = connect(read, waiting)
    connection.data_received(sent) if sent else None
    await asyncio.sleep(0)
    assert closes_within(waiting, clock, transport) == seconds
    assert [data.partition(b"\r\n")[0] for data in transport.writes] == ([written] if written else [])
    connection.connection_lost(None)
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)


async def test_an_idle_connection_is_closed_even_if_it_sends_empty_lines() -> None:
    waiting, clock = timed()
    connection, transport, state = connect(respond, waiting)
    connection.data_received(HEAD)
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
    clock.now += 3
    connection.data_received(b"\r\n")
    waiting.close_expired()
    assert not transport.closed
    assert closes_within(waiting, clock, transport) == 1
    connection.connection_lost(None)


async def test_a_request_that_is_being_served_has_no_timeout() -> None:
    served = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await served.wait()
        await respond(scope, receive, send)

    waiting, clock = timed()
    connection, transport, state = connect(slow, waiting)
    connection.data_received(HEAD)
    await asyncio.sleep(0)
    clock.now += 1000
    waiting.close_expired()
    served.set()
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
    assert transport.writes[0].startswith(b"HTTP/1.1 200 OK")
    connection.connection_lost(None)


@pytest.mark.parametrize(("rate", "arrives"), [(MIN_BODY_RATE, True), (MIN_BODY_RATE // 2, False)])
async def test_a_large_body_may_take_longer_if_it_keeps_arriving(rate: int, arrives: bool) -> None:
    async def read(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            pass
        await respond(scope, receive, send)

    waiting, clock = timed()
    connection, transport, state = connect(read, waiting)
    seconds = 10
    head = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: %d\r\n\r\n"
    connection.data_received(head % (seconds * rate))
    for _ in range(seconds):
        await asyncio.sleep(0)
        clock.now += 1
        if not transport.closed:
            connection.data_received(b"x" * rate)
            waiting.close_expired()
    if not arrives:
        connection.connection_lost(None)
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
    assert transport.writes[0].startswith(b"HTTP/1.1 200" if arrives else b"HTTP/1.1 408")


async def test_a_client_that_stops_reading_a_response_is_disconnected() -> None:
    waiting, clock = timed()
    connection, transport, state = connect(respond, waiting)
    transport.unread = 1000
    connection.data_received(HEAD)
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
    clock.now += 5
    transport.unread = 500
    waiting.close_expired()
    assert not transport.closed
    assert closes_within(waiting, clock, transport) == 5
    assert transport.aborted
    connection.connection_lost(None)


# The number of connections


async def test_beyond_the_limit_the_connection_that_waited_longest_makes_room() -> None:
    waiting, state = WaitingConnections(ConnectionLimits(max_connections=2)), ServerState()
    application = ConnectionLimit(respond)
    opened = [connect(application, waiting, state) for _ in range(3)]
    assert [transport.closed for _, transport, _ in opened] == [True, False, False]
    opened[0][0].connection_lost(None)
    for connection, transport, _ in opened[1:]:
        connection.data_received(HEAD)
        await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
        assert transport.writes[0].startswith(b"HTTP/1.1 200 OK")
        connection.connection_lost(None)


async def test_requests_on_connections_beyond_the_limit_are_rejected_except_health_checks() -> None:
    ended = asyncio.Event()

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/stream":
            await ended.wait()
        await respond(scope, receive, send)

    waiting, state = WaitingConnections(ConnectionLimits(max_connections=2)), ServerState()
    application = ConnectionLimit(stream)

    async def request(path: bytes) -> tuple[Connection, RecordingTransport]:
        before = set(state.tasks)
        connection, transport, _ = connect(application, waiting, state)
        connection.data_received(HEAD.replace(b"/", path, 1))
        if path != b"/stream":
            await asyncio.wait_for(asyncio.gather(*(state.tasks - before)), 5)
        return connection, transport

    streams = [await request(b"/stream") for _ in range(2)]
    rejected, answer = await request(b"/threads")
    assert answer.writes[0].startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"retry-after: 10\r\n" in answer.writes[0]
    assert b"connection: close\r\n" in answer.writes[0]
    rejected.connection_lost(None)
    health, answer = await request(b"/api/ok")
    assert answer.writes[0].startswith(b"HTTP/1.1 200 OK\r\n")
    health.connection_lost(None)
    ended.set()
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
    streams[0][0].connection_lost(None)
    later, answer = await request(b"/threads")
    assert answer.writes[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert waiting.rejected == 1
    for connection in (streams[1][0], later):
        connection.connection_lost(None)


async def test_connections_far_beyond_the_limit_are_closed_with_a_response() -> None:
    ended = asyncio.Event()

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        await ended.wait()
        await respond(scope, receive, send)

    waiting, state = WaitingConnections(ConnectionLimits(max_connections=1)), ServerState()
    opened = []
    for _ in range(HEADROOM + 2):
        opened.append(connect(stream, waiting, state))
        opened[-1][0].data_received(HEAD) if not opened[-1][1].closed else None
    assert [transport.closed for _, transport, _ in opened] == [*[False] * (HEADROOM + 1), True]
    assert opened[-1][1].writes[0].startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    ended.set()
    for connection, _, _ in opened:
        connection.connection_lost(None)
    await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
