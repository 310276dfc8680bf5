"""CORS, only for requests that need it."""

from collections.abc import Awaitable, Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send


class ConditionalCors:
    """Starlette's CORS middleware for requests with an Origin header. It wraps every message that is sent, so all other
    requests bypass it."""

    def __init__(
        self,
        app: ASGIApp,
        origins: str,
        exposed: Sequence[str],
        *,
        methods: Sequence[str] = ("*",),
        headers: Sequence[str] = ("*",),
        credentials: bool = True,
        max_age: int = 600,
    ) -> None:
        self._app = app
        self._with_cors = CORSMiddleware(
            app,
            allow_origin_regex=origins,
            allow_methods=methods,
            allow_headers=headers,
            expose_headers=exposed,
            allow_credentials=credentials,
            max_age=max_age,
            # Browsers ask before a page from the internet calls a server in a private network, such as loopback. The
            # origin is checked as for any other request.
            allow_private_network=True,
        )

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        has_origin = scope["type"] == "http" and any(name == b"origin" for name, _ in scope["headers"])
        return (self._with_cors if has_origin else self._app)(scope, receive, send)
