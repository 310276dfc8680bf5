"""Requests that the project's own code makes to the server it runs in, without a socket.

Nodes run on other event loops than the API, or in threads. So a request is executed on the API's loop, and the caller
gets the response message by message. The next message is produced once the caller has taken the previous one: a caller
that does not read holds the stream back, as over a socket.

The application behind a loopback does not check Host and Origin. Only code in this process and its worker processes can
reach it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadwire.core.users import User
from threadwire.engine.access import current_user
from threadwire.http.authentication import INSIDE_USER
from threadwire.http.streaming import ABORT

BASE_URL = "http://api"
"""The URL that the SDK's clients use for the server they run in."""

CUT_OFF = "The server ended the response before it was complete"

Outcome = Message | httpx.RemoteProtocolError | None
"""A message of the response, the error that ended it, or None after the last message."""


class Loopback:
    """The server, to be called from any event loop or thread. It is an ASGI application itself."""

    def __init__(self, app: ASGIApp, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._loop = loop

    def start(self, scope: Scope, body: bytes, deliver: Callable[[Outcome], object]) -> "Exchange":
        """Execute a request of the current user. `deliver` is called on the API's loop."""
        return self.start_as(current_user.get(), scope, body, deliver)

    def start_as(
        self, user: User | None, scope: Scope, body: bytes, deliver: Callable[[Outcome], object]
    ) -> "Exchange":
        scope = {**scope, INSIDE_USER: user}
        exchange = Exchange(self._app, self._loop, scope, body, deliver)
        # An empty context: a run that this request starts must not look like a part of the run that made it. It only
        # acts as the same user.
        self._loop.call_soon_threadsafe(exchange.run, context=Context())
        return exchange

    def is_current(self) -> bool:
        """Whether the caller is on the API's loop, which it must not block."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        exchange = AsyncExchange(self, scope, body)
        try:
            while (response := await exchange.next(None)) is not None:
                await send(response)
        finally:
            exchange.close()


class Exchange:
    """One request and its response."""

    def __init__(
        self,
        app: ASGIApp,
        loop: asyncio.AbstractEventLoop,
        scope: Scope,
        body: bytes,
        deliver: Callable[[Outcome], object],
    ) -> None:
        self._app = app
        self._loop = loop
        self._scope = {**scope, ABORT: self._abort}
        self._body: bytes | None = body
        self._deliver = deliver
        self._taken = asyncio.Event()
        self._closed = asyncio.Event()

    def run(self) -> None:
        task = self._loop.create_task(self._respond())
        _running.add(task)
        task.add_done_callback(_running.discard)

    def take(self) -> None:
        """Let the server produce the next message. Called from any thread."""
        self._call(self._taken.set)

    def close(self) -> None:
        """Disconnect. Called from any thread."""
        self._call(self._close)

    def _call(self, callback: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    def _close(self) -> None:
        self._closed.set()
        self._taken.set()

    def _abort(self) -> None:
        self._deliver(httpx.RemoteProtocolError(CUT_OFF))
        self._close()

    async def _respond(self) -> None:
        outcome: Outcome = None
        try:
            await self._app(self._scope, self._receive, self._send)
        except Exception as error:  # unhandled; the server has already logged it
            outcome = httpx.RemoteProtocolError(CUT_OFF)
            outcome.__cause__ = error
        finally:
            self._deliver(outcome)

    async def _receive(self) -> Message:
        if self._body is None:
            await self._closed.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        if self._closed.is_set():
            await asyncio.sleep(0)  # let the application notice that the caller has disconnected
            return
        self._taken.clear()
        self._deliver(message)
        await self._taken.wait()


_running: set[asyncio.Task[None]] = set()
"""A loop holds only weak references to its tasks."""


class AsyncExchange:
    """The messages of a response, on the event loop of the caller."""

    def __init__(self, loopback: Loopback, scope: Scope, body: bytes) -> None:
        self._outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        self._here = asyncio.get_running_loop()
        self._exchange = loopback.start(scope, body, self._deliver)

    def _deliver(self, outcome: Outcome) -> None:
        if self._here.is_closed():
            self._exchange.close()
        else:
            self._here.call_soon_threadsafe(self._outcomes.put_nowait, outcome)

    async def next(self, timeout: float | None) -> Message | None:
        async with asyncio.timeout(timeout):
            outcome = await self._outcomes.get()
        self._exchange.take()
        return _unwrap(outcome)

    def close(self) -> None:
        self._exchange.close()


class SyncExchange:
    """The messages of a response, for a caller that blocks its thread."""

    def __init__(self, loopback: Loopback, scope: Scope, body: bytes) -> None:
        if loopback.is_current():
            raise RuntimeError("A sync client would block the server it calls. Use `get_client` here.")
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._exchange = loopback.start(scope, body, self._outcomes.put)

    def next(self, timeout: float | None) -> Message | None:
        try:
            outcome = self._outcomes.get(timeout=timeout)
        except Empty:
            raise TimeoutError from None
        self._exchange.take()
        return _unwrap(outcome)

    def close(self) -> None:
        self._exchange.close()


def _unwrap(outcome: Outcome) -> Message | None:
    if isinstance(outcome, httpx.RemoteProtocolError):
        raise outcome
    return outcome


class LoopbackTransport(httpx.AsyncBaseTransport):
    """The transport of an async client. `connected` returns the server at the time of each request, so a client may be
    created while the project is being imported."""

    def __init__(self, connected: Callable[[], Loopback]) -> None:
        self._connected = connected

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = b"".join([part async for part in request.stream])  # type: ignore[union-attr]
        exchange = AsyncExchange(self._connected(), _scope(request), body)
        timeout = _read_timeout(request)
        try:
            start = await exchange.next(timeout)
        except TimeoutError:
            exchange.close()
            raise httpx.ReadTimeout("No response in time", request=request) from None
        except BaseException:
            exchange.close()
            raise
        return _response(start, _AsyncBody(exchange, timeout))


class _AsyncBody(httpx.AsyncByteStream):
    def __init__(self, exchange: AsyncExchange, timeout: float | None) -> None:
        self._exchange = exchange
        self._timeout = timeout

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            try:
                message = await self._exchange.next(self._timeout)
            except TimeoutError:
                raise httpx.ReadTimeout("No data in time") from None
            body, more = _body_part(message)
            yield body

    async def aclose(self) -> None:
        self._exchange.close()


class SyncLoopbackTransport(httpx.BaseTransport):
    """The transport of a sync client; see `LoopbackTransport`."""

    def __init__(self, connected: Callable[[], Loopback]) -> None:
        self._connected = connected

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        exchange = SyncExchange(self._connected(), _scope(request), request.read())
        timeout = _read_timeout(request)
        try:
            start = exchange.next(timeout)
        except TimeoutError:
            exchange.close()
            raise httpx.ReadTimeout("No response in time", request=request) from None
        except BaseException:
            exchange.close()
            raise
        return _response(start, _SyncBody(exchange, timeout))


class _SyncBody(httpx.SyncByteStream):
    def __init__(self, exchange: SyncExchange, timeout: float | None) -> None:
        self._exchange = exchange
        self._timeout = timeout

    def __iter__(self) -> Iterator[bytes]:
        more = True
        while more:
            try:
                message = self._exchange.next(self._timeout)
            except TimeoutError:
                raise httpx.ReadTimeout("No data in time") from None
            body, more = _body_part(message)
            yield body

    def close(self) -> None:
        self._exchange.close()


def _scope(request: httpx.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": None,
        "root_path": "",
    }


def _read_timeout(request: httpx.Request) -> float | None:
    timeout: float | None = request.extensions.get("timeout", {}).get("read")
    return timeout


def _response(start: Message | None, body: httpx.AsyncByteStream | httpx.SyncByteStream) -> httpx.Response:
    if start is None:
        raise httpx.RemoteProtocolError(CUT_OFF)
    return httpx.Response(start["status"], headers=start.get("headers", []), stream=body)


def _body_part(message: Message | None) -> tuple[bytes, bool]:
    """The bytes of a message, and whether more follow."""
    if message is None:
        raise httpx.RemoteProtocolError(CUT_OFF)
    return message.get("body", b""), message.get("more_body", False)
