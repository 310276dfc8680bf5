"""Handing a request on to another address of this server, as if it had been sent there."""

from typing import Any
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from threadwire.core.json import dumps


class Forwarded(Response):
    """The answer is whatever that address answers. `path` is as the server sees it, decoded."""

    def __init__(self, path: str, *, method: str | None = None, query: str | None = None, body: Any = ...) -> None:
        self.background = None
        self._path = path
        self._method = method
        self._query = query
        self._body = None if body is ... else b"" if body is None else dumps(body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        there = {**scope, "path": self._path, "raw_path": quote(self._path).encode(), "path_params": {}}
        if self._method is not None:
            there["method"] = self._method
        if self._query is not None:
            there["query_string"] = self._query.encode()
        await scope["app"].router(there, receive if self._body is None else _replayed(self._body, receive), send)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body first, then whatever else the client sends: that it has left."""
    sent = False

    async def receiving() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving
