"""The project's `Auth` object: calls its handlers and interprets what they return or raise.

Handlers are the project's code. They run on their own user loop, the auth loop: a handler that blocks delays only
other handlers, and a graph that blocks delays no handler. The time of each call is limited. Only handlers that have
proven to be harmless are called *inline*, on the API loop.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

import structlog
from langgraph_sdk import Auth
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import HTTPConnection, Request
from starlette.types import Scope

from threadwire.core.access_filter import EVERYTHING, AccessFilter, parse_access_filter
from threadwire.core.users import User, make_user
from threadwire.errors import AuthFailed, ConfigError, Forbidden, InvalidAccessFilter, Rejected, Unauthenticated
from threadwire.graphs.auth_config import AuthConfig
from threadwire.graphs.error_messages import new_error_id
from threadwire.graphs.inline_handlers import HandlerCalls
from threadwire.graphs.langgraph_private.auth_handlers import authenticate_handler, handler_for, missing_names
from threadwire.graphs.project_modules import LoadError, ProjectModules
from threadwire.graphs.tracebacks import render_traceback
from threadwire.graphs.user_loop import UserLoop, WorkExited

Headers = Iterable[tuple[bytes, bytes]]
"""The headers of a request, as ASGI represents them."""

SECRET_HEADERS = frozenset({b"authorization", b"proxy-authorization", b"cookie", b"x-api-key"})
"""Headers whose values must not appear in the log, not even in the message of an exception."""

_REJECTIONS = (Auth.exceptions.HTTPException, StarletteHTTPException)
UUID_LENGTH = 36
"""The length of a UUID in its canonical form, which all ids of the engine have."""

_ID_FIELDS = ("thread_id", "run_id", "assistant_id", "cron_id")

logger = structlog.get_logger("threadwire.auth")


class ProjectAuth:
    def __init__(self, auth: Auth, loop: UserLoop, timeout: float) -> None:
        self._auth = auth
        self._loop = loop
        self._timeout = timeout
        authenticate = authenticate_handler(auth)
        self._arguments = [(name, _ARGUMENTS[name]) for name in _ARGUMENTS.keys() & _parameters(authenticate)]
        self._calls: dict[int, HandlerCalls] = {}
        """The calls of each handler, by its identity: one handler may handle many operations."""
        self._authenticate = self._calls_of(authenticate)
        self._handlers: dict[tuple[str, str], HandlerCalls | None] = {}
        """The handlers for operations that were requested before."""

    @property
    def can_authenticate(self) -> bool:
        """Whether the project has an authenticate handler. Without one, only API keys are accepted."""
        return self._authenticate is not None

    async def authenticate(self, scope: Scope) -> User:
        """Raises `Unauthenticated`, `Rejected` or `AuthFailed`."""
        assert self._authenticate is not None, "check `can_authenticate` first"
        arguments = {name: make(scope) for name, make in self._arguments}
        returned = await self._call(self._authenticate, arguments, action="authenticate", headers=scope["headers"])
        if returned is None:
            raise Unauthenticated("Unauthorized")
        if (user := make_user(returned)) is None:
            raise self._failed(f"The handler returned {type(returned).__name__} without an identity.", "authenticate")
        return user

    async def filter_for(self, user: User, resource: str, action: str, value: dict[str, Any]) -> AccessFilter:
        """Call the most specific handler for the operation. It may change `value`."""
        if (handler := self._handler_for(resource, action)) is None:
            return EVERYTHING
        if resource != "crons" or action == "create":  # like the stock server
            _use_uuids(value)
        context = Auth.types.AuthContext(permissions=user.permissions, user=user, resource=resource, action=action)  # type: ignore[arg-type]
        returned = await self._call(handler, {"ctx": context, "value": value}, action=f"{resource}.{action}")
        return self._filter_of(returned, f"{resource}.{action}")

    def _handler_for(self, resource: str, action: str) -> HandlerCalls | None:
        operation = (resource, action)
        if operation not in self._handlers:
            self._handlers[operation] = self._calls_of(handler_for(self._auth, resource, action))
        return self._handlers[operation]

    def _calls_of(self, handler: Any | None) -> HandlerCalls | None:
        if handler is None:
            return None
        if id(handler) not in self._calls:
            self._calls[id(handler)] = HandlerCalls(handler, self._loop, self._timeout)
        return self._calls[id(handler)]

    def _filter_of(self, returned: object, action: str) -> AccessFilter:
        if returned is None or returned is True:
            return EVERYTHING
        if returned is False:
            raise Forbidden()
        if not isinstance(returned, Mapping):
            raise self._failed(f"The handler returned {type(returned).__name__}, not a filter or a boolean.", action)
        try:
            return parse_access_filter(returned)
        except InvalidAccessFilter as error:
            raise self._failed(error.message, action) from error

    async def _call(
        self, handler: HandlerCalls, arguments: Mapping[str, Any], *, action: str, headers: Headers = ()
    ) -> Any:
        try:
            return await handler.call(arguments)
        except _REJECTIONS as error:
            raise _rejected(error.status_code, error.detail, error.headers) from None
        except AssertionError as error:
            if action == "authenticate":
                raise self._failed(_stack(error, headers), action) from None
            raise Forbidden(str(error) or "Forbidden") from None
        except TimeoutError:
            raise self._failed(f"The handler did not return within {self._timeout:g} seconds.", action) from None
        except Exception as error:
            raise self._failed(_stack(error, headers), action) from None

    def _failed(self, reason: str, action: str) -> AuthFailed:
        """Log why a handler failed. The client receives only the id."""
        error_id = new_error_id()
        logger.error("auth_handler_failed", error_id=error_id, action=action, reason=reason)
        return AuthFailed(f"The request could not be authorized (id {error_id})")


def load_auth(config: AuthConfig, modules: ProjectModules) -> Auth:
    """Import the project's `Auth` object. Raises `ConfigError`."""
    try:
        loaded = getattr(modules.load(config.source), config.source.attribute, None)
    except LoadError as failure:
        raise ConfigError(f'"auth"."path": {failure}') from failure
    if not isinstance(loaded, Auth):
        kind = "not defined" if loaded is None else f"an object of type {type(loaded).__name__}"
        raise ConfigError(f'"auth"."path": {config.source} must be an instance of langgraph_sdk.Auth, but is {kind}.')
    if missing := missing_names(loaded):
        raise ConfigError(f'"auth" is not supported with the installed langgraph-sdk: Auth has no {missing[0]}.')
    unknown = _required(authenticate_handler(loaded)) - _ARGUMENTS.keys()
    if unknown:
        raise ConfigError(
            f'"auth"."path": the authenticate handler has an unknown parameter `{min(unknown)}`. It can have:'
            f" {', '.join(_ARGUMENTS)}."
        )
    return loaded


def _parameters(handler: Any) -> frozenset[str]:
    if handler is None:
        return frozenset()
    parameters = inspect.signature(handler).parameters.values()
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return frozenset(_ARGUMENTS)
    return frozenset(each.name for each in parameters)


def _required(handler: Any) -> set[str]:
    if handler is None:
        return set()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(handler).parameters.values()
    return {each.name for each in parameters if each.kind in named and each.default is inspect.Parameter.empty}


def _request(scope: Scope) -> HTTPConnection:
    return Request(scope) if scope["type"] == "http" else HTTPConnection(scope)


def _authorization(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            return str(value, "latin-1")
    return None


_ARGUMENTS: dict[str, Callable[[Scope], Any]] = {
    "request": _request,
    "path": lambda scope: scope["path"],
    "method": lambda scope: scope.get("method", "GET"),
    "path_params": lambda scope: dict(scope.get("path_params") or {}),
    "query_params": lambda scope: dict(HTTPConnection(scope).query_params),
    "headers": lambda scope: dict(scope["headers"]),
    "authorization": _authorization,
}
"""The parameters that an authenticate handler may have."""


def _secrets(headers: Headers) -> Iterable[str]:
    for name, value in headers:
        if name in SECRET_HEADERS:
            text = value.decode("latin-1")
            yield text
            yield from (part for part in text.replace("=", " ").replace(";", " ").split() if len(part) >= 8)


def _stack(error: BaseException, headers: Headers) -> str:
    rendered = render_traceback(error.__cause__ if isinstance(error, WorkExited) and error.__cause__ else error)
    for secret in sorted(set(_secrets(headers)), key=len, reverse=True):
        rendered = rendered.replace(secret, "[redacted]")
    return rendered


def _rejected(status: int, detail: object, headers: Mapping[str, str] | None) -> Exception:
    if isinstance(status, int) and 400 <= status < 600:
        return Rejected(status, str(detail), dict(headers or {}))
    return AuthFailed(f"The request was rejected with the invalid status {status}")


def _use_uuids(value: dict[str, Any]) -> None:
    """Handlers see ids as UUIDs, as on the stock server."""
    for name in _ID_FIELDS:
        if name in value and isinstance(text := value[name], str) and len(text) == UUID_LENGTH:
            try:
                value[name] = UUID(text)
            except ValueError:  # the name of a graph, for example
                continue
