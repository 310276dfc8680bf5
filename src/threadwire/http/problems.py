"""The one mapping from errors to HTTP responses, in the format of LangGraph's clients: `{"detail": "a sentence"}`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from threadwire import errors
from threadwire.core.json import dumps

logger = structlog.get_logger("threadwire.http")

STATUS: dict[type[errors.ThreadwireError], int] = {
    errors.Invalid: 422,
    errors.InvalidCursor: 400,
    errors.BadRequest: 400,
    errors.TooLarge: 413,
    errors.NotFound: 404,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.AuthFailed: 500,
    errors.Conflict: 409,
    errors.Fenced: 409,
    errors.QueueFull: 429,
    errors.GraphUnavailable: 503,
    errors.GraphFailed: 502,
    errors.LoopFailed: 503,
    errors.StorageError: 503,
    errors.StorageFull: 507,
    errors.WriteTooLarge: 507,
}


RETRY_AFTER_SECONDS = 10
"""Seconds after which a client that was rejected for a temporary reason should retry. How long that reason lasts is
unknown."""

_TEMPORARY = (errors.QueueFull, errors.StorageUnavailable)


def status_of(error: errors.ThreadwireError) -> int:
    if isinstance(error, errors.Rejected):
        return error.status
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def headers_of(error: errors.ThreadwireError) -> dict[str, str]:
    if isinstance(error, errors.Rejected):
        return error.headers
    return {"Retry-After": str(RETRY_AFTER_SECONDS)} if isinstance(error, _TEMPORARY) else {}


class JsonResponse(JSONResponse):
    """A JSON response whose encoding cannot fail."""

    def render(self, content: object) -> bytes:
        return dumps(content)

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        if headers:
            super().init_headers(headers)
        else:  # what Starlette would compute
            length = str(len(self.body)).encode("latin-1")
            self.raw_headers = [(b"content-length", length), (b"content-type", b"application/json")]


Responses = dict[int | str, dict[str, Any]]
"""The documented responses of a route, in FastAPI's format."""


class Problem(BaseModel):
    """The body of an error response."""

    model_config = ConfigDict(extra="forbid")

    detail: str = Field(description="A sentence that describes the error.")


_MEANING = {
    400: "Not valid in the current state or in this combination",
    404: "Not found",
    409: "The resource already exists, or another operation is in progress",
    413: "The body, or a part of it, is too large",
    415: "The body is not JSON",
    422: "The request is invalid",
    429: "Too many runs are pending; `Retry-After` says when to retry",
    502: "The graph's own code raised an error",
    503: "The graph could not be loaded, or the database or the engine has failed",
}


def error_responses(*statuses: int, shape: type[BaseModel] = Problem) -> Responses:
    """The error responses of a route, for the OpenAPI schema."""
    return {status: {"model": shape, "description": _MEANING[status]} for status in statuses}


ACCEPTED: Responses = {202: {"description": "Accepted, and not yet done"}}
GRAPH_ERRORS = error_responses(502, 503)
"""The error responses of routes that call the graph's own code."""


def problem(status: int, detail: str) -> JsonResponse:
    return JsonResponse({"detail": detail}, status)


def install(app: FastAPI) -> None:
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(Exception, _unexpected)
    setattr(app, "openapi", partial(_openapi, app.openapi))  # noqa: B010 - FastAPI documents that it may be replaced


def _openapi(generate: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The OpenAPI schema without FastAPI's lists of validation errors, which we do not return. FastAPI returns the same
    object until its routes change, and it is edited in place, once."""
    api = generate()
    if _VALIDATION_ERRORS not in api["components"]["schemas"]:
        return api
    for methods in api["paths"].values():
        for operation in methods.values():
            if _VALIDATION_ERRORS in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    for name in (_VALIDATION_ERRORS, "ValidationError"):
        api["components"]["schemas"].pop(name, None)
    return api


_VALIDATION_ERRORS = "HTTPValidationError"


def _expected(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.ThreadwireError)
    return JsonResponse({"detail": error.message}, status_of(error), headers=headers_of(error))


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_allowed(request))
    return JsonResponse({"detail": error.detail}, error.status_code, headers=headers)


def _allowed(request: Request) -> list[str]:
    """Every method that this path supports. Starlette lists only those of the first route that matches the path."""
    scopes = [{**request.scope, "method": method} for method in _METHODS]
    routes = request.app.routes
    return [each["method"] for each in scopes if any(route.matches(each)[0] is Match.FULL for route in routes)]


_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    validation_errors = error.errors()
    if any(each["type"] == "json_invalid" for each in validation_errors):
        return problem(422, "Invalid JSON in request body")
    return problem(422, validation_messages(validation_errors))


def validation_messages(found: Sequence[dict[str, Any]]) -> str:
    """Pydantic's validation errors, one line each."""
    return "\n".join(dict.fromkeys(_sentence(each) for each in found[:10]))


def _sentence(error: dict[str, object]) -> str:
    location = error.get("loc")
    names = _names(location) if isinstance(location, tuple) else []
    if error.get("type") == "missing":
        return f'"{names[-1]}" is a required property' if names else "A request body is required"
    message = str(error.get("msg")).removeprefix("Value error, ")  # pydantic's prefix to our own messages
    return f"{'.'.join(names) or 'body'}: {message}"


def _names(location: tuple[object, ...]) -> list[str]:
    """The field names of a location, without the part of the request, and without the member of a union that was tried
    (`literal['a','b']`)."""
    inner = location[1:] if location[:1] in _REQUEST_PARTS else location
    return [str(name) for name in inner if "[" not in str(name)]


_REQUEST_PARTS = (("body",), ("query",), ("path",), ("header",))


def _disconnected(request: Request, error: Exception) -> Response:
    """The client disconnected in the middle of its own request. It never receives the response, and the server is not
    at fault."""
    return problem(400, "The request is incomplete")


_HANDLERS: dict[type[Exception], Callable[[Request, Exception], Response]] = {
    errors.ThreadwireError: _expected,
    RequestValidationError: _malformed,
    HTTPException: _http,
    ClientDisconnect: _disconnected,
}
EXPECTED = tuple(_HANDLERS)
"""The errors that a request may end in although the server is not at fault."""


def response_to(request: Request, error: Exception) -> Response:
    """The response to a request that ended in one of the expected errors."""
    handler = next(_HANDLERS[kind] for kind in type(error).__mro__ if kind in _HANDLERS)
    return handler(request, error)


def _unexpected(request: Request, error: Exception) -> Response:
    """A bug in Threadwire. The client gets an id to quote; the traceback stays in the log."""
    error_id = uuid4().hex[:12]
    logger.error("request_failed", error_id=error_id, path=request.url.path, exc_info=error)
    return problem(500, f"Internal server error (id {error_id})")
