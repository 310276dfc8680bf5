"""Internal redirects: a request is handled as if it had been sent to another path of this server."""

from typing import Any
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from threadwire.core.json import dumps
from threadwire.http.request_body import body_first


class InternalRedirect(Response):
    """The response of another path of this server. `path` is decoded."""

    def __init__(self, path: str, *, method: str | None = None, query: str | None = None, body: Any = ...) -> None:
        self.background = None
        self._path = path
        self._method = method
        self._query = query
        self._body = None if body is ... else b"" if body is None else dumps(body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = {**scope, "path": self._path, "raw_path": quote(self._path).encode(), "path_params": {}}
        if self._method is not None:
            target["method"] = self._method
        if self._query is not None:
            target["query_string"] = self._query.encode()
        await scope["app"].router(target, receive if self._body is None else body_first(self._body, receive), send)
