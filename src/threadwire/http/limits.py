"""What a request may weigh, how deep its JSON may go, and where it may come from.

The middlewares hand a request on with a plain call, not from a coroutine of their own: a stream may stay open for
hours, and each coroutine around it would stay too.
"""

import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from inspect import signature
from itertools import accumulate
from typing import Any

import orjson
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadwire.errors import Invalid, TooDeep
from threadwire.http.problems import Responses, foreseen, problem

MAX_DEPTH = 100
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
LOOPBACK_ORIGIN = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def parse_json(body: bytes) -> Any:
    """A request's JSON. Raises `Invalid` or `TooDeep`."""
    if _depth_beyond(body, MAX_DEPTH):
        raise TooDeep(f"The request body is nested more than {MAX_DEPTH} levels deep")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Invalid("Invalid JSON in request body") from error


def _depth_beyond(body: bytes, limit: int) -> bool:
    """Whether brackets that are not in a text go deeper. It is asked about bytes that may not be JSON at all, on the
    loop that serves everybody, so each step goes over them once: a pattern for texts would begin anew at each quote of
    one that never ends. Bytes that are no JSON may be judged either way, since they are refused in any case."""
    if body.count(b"{") + body.count(b"[") <= limit:
        return False
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(brackets).cast("b")), default=0) > limit


_STEPS = bytes.maketrans(b"{[}]", bytes([1, 1, 255, 255]))  # 255 is -1 as a signed byte
_NO_BRACKETS = bytes(set(range(256)) - set(b"{[}]"))


class JsonRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = parse_json(await self.body())
        return self._json


class JsonRoute(APIRoute):
    """A route whose body, if it takes one, is JSON whatever it is said to be, and is parsed within our limits.

    `curl -d` calls JSON a form. Taking it at its content does not help foreign pages, which can send forms but no JSON
    without being asked: they are refused by their Origin, whatever they send.

    Binding a call's arguments takes FastAPI longer than parsing and checking the body. So a plain request to a route
    that takes nothing but its path and a body is bound here. Anything else, and whatever is to be refused, goes
    FastAPI's way: there is one way an error looks.

    What any such route may refuse is described here; a route names only what is its own.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        named, asked = "{" in path, bool(signature(endpoint).parameters)
        options["responses"] = {**self.refusals(named=named, asked=asked), **(options.get("responses") or {})}
        super().__init__(path, endpoint, **options)

    @staticmethod
    def refusals(*, named: bool, asked: bool) -> Responses:
        """Of a route whose path names something, and of one that is asked in words."""
        return {**(foreseen(404) if named else {}), **(foreseen(422) if asked else {})}

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        thoroughly = super().get_route_handler()
        model = self._plain_body()
        takes_body = self.body_field is not None

        async def within_limits(given: Request) -> Response:
            request = JsonRequest(given.scope, given.receive)
            if takes_body and request.headers.get("content-type") != "application/json":
                request = JsonRequest(_said_to_be_json(given.scope), given.receive)
            if model is not None and (arguments := await self._bound(request, model)) is not None:
                response: Response = await self.endpoint(**arguments)
                return response
            try:
                return await thoroughly(request)
            except HTTPException as error:
                if isinstance(error.__cause__, Invalid):  # FastAPI hides what its parser was told by ours
                    raise error.__cause__ from None
                raise

        return within_limits

    def _plain_body(self) -> type[BaseModel] | None:
        """The model of its body, if that, its path and headers that may be missing are all that it takes."""
        takes = self.dependant
        bound = {each.name for each in (*takes.path_params, *takes.header_params, *takes.body_params)}
        if len(takes.body_params) != 1 or takes.dependencies or bound != set(signature(self.endpoint).parameters):
            return None  # it wants the query, the request itself, or something else that FastAPI can give
        if any(each.field_info.annotation is not str for each in takes.path_params):
            return None
        if any(each.field_info.is_required() for each in takes.header_params):
            return None
        model = takes.body_params[0].field_info.annotation
        return model if isinstance(model, type) and issubclass(model, BaseModel) else None

    async def _bound(self, request: JsonRequest, model: type[BaseModel]) -> dict[str, Any] | None:
        """What the endpoint is to be called with, if the request is as plain as most are."""
        if any(each.alias in request.headers for each in self.dependant.header_params):
            return None
        if not await request.body():
            return None
        given = await request.json()
        try:
            body = model.model_validate(given)
        except ValidationError:
            return None
        return {**request.path_params, self.dependant.body_params[0].name: body}


def _said_to_be_json(scope: Scope) -> Scope:
    others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
    return {**scope, "headers": [*others, (b"content-type", b"application/json")]}


class BodyLimit:
    """Refuse a body that is, or turns out to be, too large, before anything reads it whole."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        # A number of thousands of digits is one that Python does not read, and that no limit needs.
        if not declared.isdigit() or len(declared) > 18 or int(declared) > self._limit:
            return self._refuse(scope, receive, send)
        if b"content-length" in headers or scope["method"] in _SAFE_METHODS:
            # The web server holds a client to what it declared, and nobody reads what comes with a GET.
            return self._app(scope, receive, send)
        return self._count(scope, receive, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen = 0
        refused = started = False

        async def counted() -> Message:
            nonlocal seen, refused
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                refused = True
                return {"type": "http.disconnect"}
            return message

        async def sent(message: Message) -> None:
            nonlocal started
            if refused and not started:
                return
            started = True
            await send(message)

        try:
            await self._app(scope, counted, sent)
        except Exception:
            if not refused:
                raise
        if refused and not started:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        await problem(413, f"The request body is larger than {self._limit} bytes")(scope, receive, send)


class CorsWhenAsked:
    """CORS for requests that come from a page. The others are spared its wrapping of every message sent."""

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
        )

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        from_page = scope["type"] == "http" and any(name == b"origin" for name, _ in scope["headers"])
        return (self._with_cors if from_page else self._app)(scope, receive, send)


class TrustedSource:
    """Refuse what a browser on a foreign page could be tricked into sending: a foreign Host, or a foreign Origin on
    anything that is not a plain read. Servers on loopback are reachable by every page the user visits."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], origins: re.Pattern[str]) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] not in ("http", "websocket"):
            return self._app(scope, receive, send)
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if "*" not in self._hosts and _name_of(host) not in self._hosts:
            return problem(421, "This server does not answer to that host name")(scope, receive, send)
        origin = headers.get(b"origin")
        if origin is not None and scope.get("method") not in _SAFE_METHODS:
            text = origin.decode("latin-1")
            if not self._origins.fullmatch(text) and text.partition("://")[2] != host:
                return problem(403, "This server does not accept requests from that origin")(scope, receive, send)
        return self._app(scope, receive, send)


def _name_of(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
