"""uvicorn's connections: HTTP with a header limit, timeouts, abortable responses and fewer writes; WebSockets that can
be aborted."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from threadwire.core.json import dumps
from threadwire.http.connection_limit import BEYOND_LIMIT, TOO_MANY
from threadwire.http.problems import RETRY_AFTER_SECONDS
from threadwire.http.streaming import ABORT
from threadwire.server.descriptors import HEADROOM
from threadwire.server.waiting_connections import Phase, WaitingConnections

MAX_HEAD_BYTES = 64 * 1024
MIN_BODY_RATE = 16 * 1024
"""Bytes per second. A body that arrives at this rate may take longer than the timeout."""


def _rejection(status: bytes, detail: str, *headers: bytes) -> bytes:
    body = dumps({"detail": detail})
    head = (b"content-type: application/json", b"content-length: %d" % len(body), b"connection: close", *headers)
    return b"HTTP/1.1 " + b"\r\n".join((status, *head)) + b"\r\n\r\n" + body


_TOO_LARGE = _rejection(b"431 Request Header Fields Too Large", "The request line and headers are larger than 64 kB.")
_TOO_SLOW = _rejection(b"408 Request Timeout", "The request did not arrive in time.")
_NO_ROOM = _rejection(b"503 Service Unavailable", TOO_MANY, b"retry-after: %d" % RETRY_AFTER_SECONDS)


class Connection(HttpToolsProtocol):
    """uvicorn's connection, with six differences:

    - A response can abort the connection, through any middleware. The response is then not terminated
      properly, and the server does not wait for the client to read the rest.
    - The size of a request head is limited: until it is complete, the parser buffers it and scans it again with each
      chunk. The same limit applies to the trailers and to the line before each chunk of a chunked body.
    - Trailers are dropped. They are not headers: a proxy in front of the server may not have checked them.
    - Every wait for the client has a timeout: for a request head, for the rest of a body, for the client to read a
      response, and for the next request on an idle connection.
    - The number of connections is limited. Beyond the limit, the connection that has waited longest for a request is
      closed. If none waits, requests on the new connection are rejected. If there are too many of these connections as
      well, the connection itself is rejected.
    - The head of a response is sent together with its body if the body is already available.
    """

    def __init__(self, *args: Any, waiting: WaitingConnections | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head: int | None = None
        """Bytes received of an incomplete head, of trailers or of the line before a chunk; None inside a body and
        between requests."""
        self._head_complete = False
        self._received = 0
        """The size of the data that is being parsed."""
        self._waiting = waiting or WaitingConnections()
        self._phase: Phase | None = None
        self._progress = 0
        """Bytes of the body received since the last check, or bytes of the response that were left to read then."""
        self._beyond_limit = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        waiting, excess = self._waiting, self._excess
        if excess > 0 and not waiting.make_room():
            self._beyond_limit = True
            if excess > HEADROOM:
                waiting.count_rejection()
                self._close_with(_NO_ROOM)
                return
        self._wait_for(Phase.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for(None)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._wait_for(None)
        if self._beyond_limit:
            self._waiting.count_rejection()
            self._close_with(_NO_ROOM)
            return
        super().handle_websocket_upgrade()

    @property
    def _excess(self) -> int:
        return len(self.connections) - self._waiting.limits.max_connections

    def _wait_for(self, phase: Phase | None) -> None:
        if self._phase is not None:
            self._waiting.stop(self, self._phase)
        self._phase = phase
        if phase is not None:
            self._progress = 0 if phase is not Phase.RESPONSE else self._unread
            self._waiting.start(self, phase)

    @property
    def _unread(self) -> int:
        """Bytes of responses that the client has not read."""
        return self.transport.get_write_buffer_size()

    def makes_progress(self, phase: Phase, seconds: float) -> bool:
        if phase is Phase.BODY:
            received, self._progress = self._progress, 0
            reading = not self.flow.read_paused and not self.cycle.response_started
            return received >= MIN_BODY_RATE * seconds or not reading
        if phase is Phase.RESPONSE:
            left_before, self._progress = self._progress, self._unread
            return self._progress < left_before
        return False

    def give_up(self, phase: Phase) -> None:
        self._phase = None
        if phase is Phase.RESPONSE or (phase is Phase.BODY and self.cycle.response_started):
            self.transport.abort()
        elif phase is Phase.BODY or (phase is Phase.HEAD and self._head):
            self._close_with(_TOO_SLOW)
        else:
            self.transport.close()

    def _close_with(self, response: bytes) -> None:
        self.transport.write(response)
        self._close()

    def _close(self) -> None:
        """Close the connection once the client has read the rest, which it may never do."""
        self.transport.close()
        if self._unread:
            self._wait_for(Phase.RESPONSE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        self._head_complete = False
        self._wait_for(Phase.HEAD)
        self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_complete:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_complete = True
        self._count_from_next_data()
        self._wait_for(None)
        self._check_limit()
        super().on_headers_complete()
        if self.cycle is not None and self.cycle.transport is self.transport:
            self.cycle.transport = cast("asyncio.Transport", HeadWithBody(self.transport, self.loop))

    def on_chunk_header(self) -> None:
        self._count_from_next_data()  # trailers follow if this is the last chunk, which is empty

    def _check_limit(self) -> None:
        """Mark the request if this connection is one too many."""
        self._beyond_limit = self._beyond_limit and self._excess > 0
        if self._beyond_limit:
            self.scope[BEYOND_LIMIT] = self._waiting.count_rejection  # type: ignore[literal-required]

    def on_body(self, body: bytes) -> None:
        self._head = None
        self._progress += len(body)
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        self._count_from_next_data()

    def on_message_complete(self) -> None:
        self._head = None
        if self._phase is Phase.BODY:
            self._wait_for(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._unread:
            self._wait_for(Phase.RESPONSE)
        elif not self.pipeline and not self.transport.is_closing():
            self._wait_for(Phase.IDLE)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for(Phase.RESPONSE)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._phase is Phase.RESPONSE and not self.cycle.response_complete:
            self._wait_for(None)

    def data_received(self, data: bytes) -> None:
        self._received = len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._phase is None and self._head_complete and self.cycle is not None and self.cycle.more_body:
            self._wait_for(Phase.BODY)
        if self._head is not None:
            self._head += len(data)
            if self._head > MAX_HEAD_BYTES:
                self._reject()

    def _count_from_next_data(self) -> None:
        """Do not count the data that is being parsed: it may be mostly body, and the parser does not report its
        position."""
        self._head = -self._received

    def _reject(self) -> None:
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()  # a second response inside the first one would be garbage
        else:
            self._close_with(_TOO_LARGE)


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


class SocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, which can be aborted. Closing it would wait until the client has read the rest."""

    async def run_asgi(self) -> None:
        self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]
        await super().run_asgi()
