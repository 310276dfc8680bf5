"""A WebSocket that carries JSON."""

import anyio
import pytest
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from threadwire.core.ids import Seq
from threadwire.errors import Invalid
from threadwire.http import json_socket
from threadwire.http.json_socket import JsonSocket, SlowReader, json_lines
from threadwire.http.streaming import ABORT

pytestmark = pytest.mark.anyio


class Client:
    """The other end of a WebSocket: what it sends, and what it has received."""

    def __init__(self, *sent: Message, reads: bool = True) -> None:
        self._sent = list(sent)
        self._reads = reads
        self.received: list[str] = []
        self.aborted = False

    async def connect(self) -> JsonSocket:
        websocket = WebSocket({"type": "websocket", "headers": [], ABORT: self._abort}, self._receive, self._send)
        await websocket.accept()
        return JsonSocket(websocket)

    def _abort(self) -> None:
        self.aborted = True

    async def _receive(self) -> Message:
        if not self.received and not self._sent:
            return {"type": "websocket.connect"}
        return self._sent.pop(0)

    async def _send(self, message: Message) -> None:
        if message["type"] == "websocket.send":
            if not self._reads:
                await anyio.sleep_forever()
            self.received.append(message["text"])


def frames(*sent: Message) -> list[Message]:
    return [{"type": "websocket.connect"}, *sent, {"type": "websocket.disconnect", "code": 1000}]


async def test_text_and_bytes_are_parsed() -> None:
    text, data = {"type": "websocket.receive", "text": '{"a":1}'}, {"type": "websocket.receive", "bytes": b"[2]"}
    socket = await Client(*frames(text, data)).connect()
    assert [await socket.receive(), await socket.receive()] == [{"a": 1}, [2]]
    with pytest.raises(WebSocketDisconnect):
        await socket.receive()


@pytest.mark.parametrize("text", ["{", "[" * 200 + "]" * 200])
async def test_what_is_not_json_or_too_deep_is_invalid(text: str) -> None:
    socket = await Client(*frames({"type": "websocket.receive", "text": text})).connect()
    with pytest.raises(Invalid):
        await socket.receive()


async def test_lines_of_one_call_are_sent_together() -> None:
    client = Client(*frames())
    socket = await client.connect()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(socket.send, [b"a", b"b"])
        tasks.start_soon(socket.send, [b"c", b"d"])
    assert client.received in (["a", "b", "c", "d"], ["c", "d", "a", "b"])


async def test_a_client_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_socket, "SEND_TIMEOUT", 0.01)
    client = Client(*frames(), reads=False)
    socket = await client.connect()
    with pytest.raises(SlowReader):
        await socket.send([b"a"])
    socket.abort()
    assert client.aborted


def test_each_message_is_a_line() -> None:
    assert json_lines([(b"values", b"{}"), (b"custom", b"[]")], Seq(3)) == b"{}\n[]"
