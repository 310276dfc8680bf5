"""Authenticate each request before any route sees it.

Credentials are an API key (`x-api-key`, or a bearer token that looks like one), a one-time ticket in the query of a
request that a browser makes without headers, or whatever the project's `Auth` accepts. A request from inside the
process acts as the user of the run or request that made it.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from threadwire.core.api_keys import digest_of, parse_key
from threadwire.core.users import Caller, User, make_user
from threadwire.engine.access import AccessRules, begin_request
from threadwire.engine.clock import Clock
from threadwire.errors import ThreadwireError, Unauthenticated
from threadwire.http.open_responses import OpenResponses
from threadwire.http.problems import JsonResponse, headers_of, status_of
from threadwire.storage.abc import Keys, Tickets

PUBLIC_PATHS = frozenset({"/", "/ok", "/ready", "/info", "/docs", "/openapi.json"})
"""Paths that need no credential. Their responses reveal nothing about users and threads."""

INSIDE_USER = "threadwire.user"
"""Key of the ASGI scope for the user of a request from inside the process. Only code in this process can set it."""

CALLER = "threadwire.caller"
"""Key of the ASGI scope for the caller, once it is known."""

_INVALID_KEY = "The API key is not valid"
_INVALID_TICKET = "The ticket is not valid. Each ticket can be used once, within seconds."


class UserSource(Protocol):
    """The project's own authentication."""

    async def authenticate(self, scope: Scope) -> User: ...


class Authenticator:
    """Identifies callers."""

    def __init__(self, keys: Keys, tickets: Tickets, project: UserSource | None, clock: Clock) -> None:
        self._keys = keys
        self._tickets = tickets
        self._project = project
        self._clock = clock

    async def identify(self, scope: Scope) -> Caller:
        """Raises `Unauthenticated`, or the error with which the project's handler rejects the request."""
        if isinstance(inside := scope.get(INSIDE_USER), User):
            return Caller(inside)
        if (ticket := _take_ticket(scope)) is not None:
            return await self._of_ticket(ticket, scope)
        if (key := _key_in(scope["headers"])) is not None:
            return await self._of_key(*key)
        if self._project is None:
            raise Unauthenticated("An API key is required: send it as x-api-key")
        user = await self._project.authenticate(scope)
        expires_at = user.expires_at
        self._require_unexpired(expires_at)
        return Caller(user, expires_at=expires_at)

    async def _of_key(self, key_id: str, secret: str) -> Caller:
        key = (await self._keys.find([key_id])).get(key_id)
        if key is None or not key.has_secret(secret) or not key.is_valid(self._clock()):
            raise Unauthenticated(_INVALID_KEY)
        user = make_user({"identity": key.user, "permissions": key.permissions, "display_name": key.name or key.user})
        assert user is not None, "a key has a user"
        return Caller(user, key.key_id, key.expires_at)

    async def _of_ticket(self, ticket: str, scope: Scope) -> Caller:
        grant = await self._tickets.redeem(digest_of(ticket), self._clock())
        if grant is None or not _covers(grant, scope):
            raise Unauthenticated(_INVALID_TICKET)
        caller = Caller(User(grant["user"]), grant["key_id"], grant["expires_at"])
        self._require_unexpired(caller.expires_at)
        if caller.key_id is not None:
            key = (await self._keys.find([caller.key_id])).get(caller.key_id)
            if key is None or not key.is_valid(self._clock()):
                raise Unauthenticated(_INVALID_TICKET)
        return caller

    def _require_unexpired(self, expires_at: int | None) -> None:
        if expires_at is not None and expires_at <= self._clock():
            raise Unauthenticated("The credential has expired")


class Authentication:
    """Reject requests without a valid credential. All others act as their user."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        rules: Callable[[], AccessRules],
        open_responses: OpenResponses,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._rules = rules
        self._open_responses = open_responses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or CALLER in scope or _path(scope) in PUBLIC_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            caller = await self._authenticator.identify(scope)
        except ThreadwireError as error:
            await _reject(error, scope, receive, send)
            return
        scope[CALLER] = caller
        begin_request(caller.user, self._rules())
        await self._open_responses.run(caller, self._app, scope, receive, send)


def _path(scope: Scope) -> str:
    """The path relative to where the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def _reject(error: ThreadwireError, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
    response = JsonResponse({"detail": error.message}, status_of(error), headers=headers_of(error))
    if scope["type"] == "websocket":
        return WebSocket(scope, receive, send).send_denial_response(response)
    return response(scope, receive, send)


def _key_in(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, str] | None:
    """The id and the secret of the API key in the headers, if there is one. `x-api-key` takes precedence."""
    bearer = None
    for name, value in headers:
        if name == b"x-api-key" and (key := parse_key(value.decode("latin-1"))) is not None:
            return key
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            bearer = parse_key(value[7:].decode("latin-1").strip())
    return bearer


def _take_ticket(scope: Scope) -> str | None:
    """Remove the ticket from the query and return it, so that nothing else sees or logs it. Only requests that
    browsers send without headers can have one."""
    query: bytes = scope.get("query_string", b"")
    if b"ticket=" not in query or (scope["type"] == "http" and scope["method"] not in ("GET", "HEAD", "PUT")):
        return None
    parts = query.split(b"&")
    tickets = [value for name, value in parse_qsl(query.decode("latin-1")) if name == "ticket"]
    scope["query_string"] = b"&".join(part for part in parts if not part.startswith(b"ticket="))
    return tickets[0] if tickets else None


def caller_of(scope: Scope) -> Caller | None:
    """Who makes the request; None if the server does not authenticate."""
    caller = scope.get(CALLER)
    return caller if isinstance(caller, Caller) else None


def grant_of(caller: Caller, path_end: str | None = None) -> dict[str, Any]:
    """What a ticket of this caller grants."""
    grant = {"user": dict(caller.user), "key_id": caller.key_id, "expires_at": caller.expires_at}
    return grant if path_end is None else {**grant, "path_end": path_end}


def _covers(grant: dict[str, Any], scope: Scope) -> bool:
    """Whether a ticket with this grant is valid for the request. A ticket for any path is not valid for a `PUT`."""
    path_end: str | None = grant.get("path_end")
    if path_end is None:
        return scope.get("method") != "PUT"
    return bool(scope["path"].endswith(path_end))
