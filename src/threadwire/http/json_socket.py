"""A WebSocket that carries JSON, with the limits of HTTP. The web server limits the size of a message. This module
limits its depth, and how long a client may take to read.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from threadwire.core.encoder import Message
from threadwire.core.ids import Seq
from threadwire.http.json_body import parse_json
from threadwire.http.streaming import ABORT, SEND_TIMEOUT

SERVICE_RESTART = 1012
"""The close code of a server that is shutting down. Clients treat 1000 and 1001 as the end of the stream."""


def json_lines(messages: Sequence[Message], seq: Seq | None) -> bytes:
    """A framing: one line per message."""
    return b"\n".join([data for _, data in messages])


class SlowReader(Exception):
    """The client does not read what it is sent."""


class JsonSocket:
    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._sending = anyio.Lock()

    async def receive(self) -> Any:
        """Return the next message. Raises `Invalid` if it is not JSON, and `WebSocketDisconnect` after the last."""
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        text = message.get("text")
        return parse_json(text.encode() if text is not None else message["bytes"])

    async def send(self, lines: Sequence[bytes]) -> None:
        """Send each line as a message. No message of another task comes in between. Raises `SlowReader` and
        `WebSocketDisconnect`."""
        async with self._sending:
            for line in lines:
                await self._send(line.decode())

    async def _send(self, text: str) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT):
                await self._websocket.send({"type": "websocket.send", "text": text})
        except TimeoutError:
            raise SlowReader() from None

    async def close(self, code: int, reason: str) -> None:
        """Close the connection, unless the client has already closed it."""
        if self._websocket.application_state == WebSocketState.CONNECTED:
            with anyio.move_on_after(1):
                await self._websocket.close(code, reason)

    def abort(self) -> None:
        """Drop the connection with everything that has not been sent."""
        if (abort := self._websocket.scope.get(ABORT)) is not None:
            abort()
