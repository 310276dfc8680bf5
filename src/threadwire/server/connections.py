"""What uvicorn leaves open about one connection."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from threadwire.http.streaming import CUT

MAX_HEAD_BYTES = 64 * 1024
_TOO_LARGE = b'{"detail":"The request line and headers are larger than 64 kB."}'
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\n"
    b"content-length: " + str(len(_TOO_LARGE)).encode() + b"\r\n"
    b"connection: close\r\n\r\n" + _TOO_LARGE
)


class Connection(HttpToolsProtocol):
    """uvicorn's, with three differences. A response can break it off: whatever middleware is in between, nothing can
    end it properly then, and what the client does not read is not waited for. A head has a limit: until it is complete
    everything that comes is kept, and looked at again with each piece. And the head of a response goes out with its
    body, if that is there already."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head: int | None = None
        """Bytes that have come of a head which is not complete."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        self.scope[CUT] = self.transport.abort  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()
        if self.cycle is not None and self.cycle.transport is self.transport:
            self.cycle.transport = cast("asyncio.Transport", HeadWithBody(self.transport, self.loop))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is not None and not self.transport.is_closing():
            self._head += len(data)
            if self._head > MAX_HEAD_BYTES:
                self.transport.write(_REFUSAL)
                self.transport.close()


class HeadWithBody:
    """A transport as a response uses it. What is written first is kept until something follows it, or to the end of
    this turn of the loop: sent by itself, the head of a short answer costs as much as the rest, and wakes the client
    for nothing."""

    __slots__ = ("_first", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._first: bytes | None = None
        """Kept for what follows; empty once it is sent."""

    def write(self, data: bytes) -> None:
        if self._first is None:
            self._first = data
            self._loop.call_soon(self._send_first)
        elif self._first:
            data, self._first = self._first + data, b""
            self._transport.write(data)
        else:
            self._transport.write(data)

    def _send_first(self) -> None:
        if self._first and not self._transport.is_closing():
            self._transport.write(self._first)
        self._first = b""

    def close(self) -> None:
        self._send_first()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()
