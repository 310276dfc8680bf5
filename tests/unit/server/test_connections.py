"""What a response writes reaches the client in order and in as few pieces as there can be."""

import asyncio
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from threadwire.server.connections import Connection, HeadWithBody

pytestmark = pytest.mark.anyio


class Recorded(asyncio.Transport):
    """A transport that only remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def responding() -> tuple[Recorded, HeadWithBody]:
    transport = Recorded()
    return transport, HeadWithBody(transport, asyncio.get_running_loop())


async def test_a_head_goes_out_with_the_body_that_follows_at_once() -> None:
    transport, response = responding()
    response.write(b"head ")
    assert transport.pieces == []
    response.write(b"body ")
    response.write(b"more")
    assert transport.pieces == [b"head body ", b"more"]
    await asyncio.sleep(0)
    assert transport.pieces == [b"head body ", b"more"]


async def test_a_head_waits_for_its_body_no_longer_than_a_turn_of_the_loop() -> None:
    transport, response = responding()
    response.write(b"head ")
    await asyncio.sleep(0)
    assert transport.pieces == [b"head "]
    response.write(b"body")
    assert transport.pieces == [b"head ", b"body"]


async def test_a_head_is_sent_before_the_connection_is_closed() -> None:
    transport, response = responding()
    response.write(b"head")
    response.close()
    assert (transport.pieces, transport.closed) == ([b"head"], True)
    await asyncio.sleep(0)


async def test_nothing_is_written_to_a_client_that_has_left() -> None:
    transport, response = responding()
    response.write(b"head")
    transport.close()
    await asyncio.sleep(0)
    assert (transport.pieces, response.is_closing()) == ([], True)


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def test_every_answer_of_a_connection_is_one_piece() -> None:
    config = Config(answer, log_config=None)
    config.load()
    transport, state = Recorded(), ServerState()
    connection = Connection(config=config, server_state=state, app_state={})
    connection.connection_made(transport)
    for _ in range(2):
        connection.data_received(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        await asyncio.wait_for(asyncio.gather(*state.tasks), 5)
    assert [(piece[:15], piece[-4:]) for piece in transport.pieces] == [(b"HTTP/1.1 200 OK", b"\r\nok")] * 2
    connection.connection_lost(None)
