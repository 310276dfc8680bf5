"""A response reaches the client in order and in as few writes as possible."""

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


async def test_every_response_is_sent_in_one_write() -> None:
    config = Config(respond, log_config=None)
    config.load()
    transport, state = RecordingTransport(), ServerState()
    connection = Connection(config=config, server_state=state, app_state={})
    connection.connection_made(transport)
    for _ in range(2):
        connection.data_received(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
    assert [(data[:15], data[-4:]) for data in transport.writes] == [(b"HTTP/1.1 200 OK", b"\r\nok")] * 2
    connection.connection_lost(None)
