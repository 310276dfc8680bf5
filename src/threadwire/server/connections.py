"""An HTTP connection of uvicorn with a header limit, abortable responses and fewer writes."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from threadwire.http.streaming import ABORT

MAX_HEAD_BYTES = 64 * 1024
_TOO_LARGE = b'{"detail":"The request line and headers are larger than 64 kB."}'
_REJECTION = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\n"
    b"content-length: " + str(len(_TOO_LARGE)).encode() + b"\r\n"
    b"connection: close\r\n\r\n" + _TOO_LARGE
)


class Connection(HttpToolsProtocol):
    """uvicorn's connection, with four differences:

    - A response can abort the connection, whatever middleware is in between. The response is then not terminated
      properly, and the server does not wait for the client to read the rest.
    - The size of a request head is limited: until it is complete, the parser buffers it and scans it again with each
      chunk. The same limit applies to the trailers and to the line before each chunk of a chunked body.
    - Trailers are dropped. They are not headers: whatever is in front of the server may not have checked them.
    - The head of a response is sent together with its body if the body is already available.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head: int | None = None
        """Bytes received of an incomplete head, of trailers or of the line before a chunk; None inside a body and
        between requests."""
        self._head_complete = False
        self._received = 0
        """The size of the data that is being parsed."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        self._head_complete = False
        self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_complete:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_complete = True
        self._count_from_next_data()
        super().on_headers_complete()
        if self.cycle is not None and self.cycle.transport is self.transport:
            self.cycle.transport = cast("asyncio.Transport", HeadWithBody(self.transport, self.loop))

    def on_chunk_header(self) -> None:
        self._count_from_next_data()  # trailers follow if this is the last chunk, which is empty

    def on_body(self, body: bytes) -> None:
        self._head = None
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        self._count_from_next_data()

    def on_message_complete(self) -> None:
        self._head = None
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        self._received = len(data)
        super().data_received(data)
        if self._head is not None and not self.transport.is_closing():
            self._head += len(data)
            if self._head > MAX_HEAD_BYTES:
                self._reject()

    def _count_from_next_data(self) -> None:
        """The data that is being parsed may be mostly body; the parser does not say where it is."""
        self._head = -self._received

    def _reject(self) -> None:
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()  # a second response inside the first one would be garbage
        else:
            self.transport.write(_REJECTION)
            self.transport.close()


class HeadWithBody:
    """The transport of one response. It holds the first write back until the next one, or until the end of this
    iteration of the event loop: sending the head of a short response separately doubles the cost and wakes the client
    for nothing."""

    __slots__ = ("_first", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._first: bytes | None = None
        """The first write while it is held back; empty once it is sent."""

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
