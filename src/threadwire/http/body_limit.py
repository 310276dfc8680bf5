"""A limit on the size of request bodies.

Like our other middlewares it forwards most requests with a plain call, not from a coroutine of its own: a stream may
stay open for hours, and each coroutine around it would stay in memory for as long.
"""

from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadwire.http.problems import problem

_METHODS_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})


class BodyLimit:
    """Reject a body whose declared or actual size exceeds the limit, before it is read in full."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        # Python rejects numbers of thousands of digits, and every number that long exceeds the limit.
        if not declared.isdigit() or len(declared) > 18 or int(declared) > self._limit:
            return self._reject(scope, receive, send)
        if b"content-length" in headers or scope["method"] in _METHODS_WITHOUT_BODY:
            # The web server enforces a declared length, and the body of a GET is never read.
            return self._app(scope, receive, send)
        return self._count(scope, receive, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0
        rejected = started = False

        async def counting_receive() -> Message:
            nonlocal size, rejected
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._limit:
                rejected = True
                return {"type": "http.disconnect"}
            return message

        async def guarded_send(message: Message) -> None:
            nonlocal started
            if rejected and not started:
                return
            started = True
            await send(message)

        try:
            await self._app(scope, counting_receive, guarded_send)
        except Exception:
            if not rejected:
                raise
        if rejected and not started:
            await self._reject(scope, receive, send)

    async def _reject(self, scope: Scope, receive: Receive, send: Send) -> None:
        await problem(413, f"The request body is larger than {self._limit} bytes")(scope, receive, send)
