"""The one table from errors to HTTP, in the shape LangGraph's clients read: `{"detail": "a sentence"}`."""

from collections.abc import Callable, Sequence
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
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Fenced: 409,
    errors.GraphUnavailable: 503,
    errors.GraphFailed: 502,
    errors.LoopDied: 503,
    errors.StorageError: 503,
}


def status_of(error: errors.ThreadwireError) -> int:
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


class Json(JSONResponse):
    """A JSON response; encoding cannot fail."""

    def render(self, content: object) -> bytes:
        return dumps(content)


Responses = dict[int | str, dict[str, Any]]
"""What a route may answer, as FastAPI takes it."""


class Problem(BaseModel):
    """How an error looks."""

    model_config = ConfigDict(extra="forbid")

    detail: str = Field(description="What is wrong, in a sentence.")


_MEANING = {
    400: "Not at this moment, or not in this combination",
    404: "There is no such thing",
    409: "It exists already, or something else is under way",
    415: "Not JSON",
    422: "The request makes no sense",
    502: "The graph's own code raised an error",
    503: "The graph's code could not be loaded, the database refused, or the engine has died",
}


def foreseen(*statuses: int, shape: type[BaseModel] = Problem) -> Responses:
    """Errors that a route may answer with, for its description in the API."""
    return {status: {"model": shape, "description": _MEANING[status]} for status in statuses}


ACCEPTED: Responses = {202: {"description": "It will be done"}}
GRAPH_CODE = foreseen(502, 503)
"""What may go wrong where a route asks the graph's own code."""


def problem(status: int, detail: str) -> Json:
    return Json({"detail": detail}, status)


def install(app: FastAPI) -> None:
    app.add_exception_handler(errors.ThreadwireError, _expected)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _cut_off)
    app.add_exception_handler(Exception, _unexpected)
    setattr(app, "openapi", partial(_described, app.openapi))  # noqa: B010 - FastAPI means it to be replaced


def _described(describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The description without the lists of mistakes that FastAPI would answer with, and we do not."""
    api = describe()
    for methods in api["paths"].values():
        for operation in methods.values():
            if _LIST_OF_MISTAKES in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    for name in (_LIST_OF_MISTAKES, "ValidationError"):
        api["components"]["schemas"].pop(name, None)
    return api


_LIST_OF_MISTAKES = "HTTPValidationError"


def _expected(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.ThreadwireError)
    return problem(status_of(error), error.message)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_allowed(request))
    return Json({"detail": error.detail}, error.status_code, headers=headers)


def _allowed(request: Request) -> list[str]:
    """Every method that this path has. Starlette names those of the first route that has the path."""
    asked = [{**request.scope, "method": method} for method in _METHODS]
    routes = request.app.routes
    return [each["method"] for each in asked if any(route.matches(each)[0] is Match.FULL for route in routes)]


_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return problem(422, "Invalid JSON in request body")
    return problem(422, sentences(found))


def sentences(found: Sequence[dict[str, Any]]) -> str:
    """What pydantic found, one line for each mistake."""
    return "\n".join(dict.fromkeys(_sentence(each) for each in found[:10]))


def _sentence(found: dict[str, object]) -> str:
    place = found.get("loc")
    names = _names(place) if isinstance(place, tuple) else []
    if found.get("type") == "missing":
        return f'"{names[-1]}" is a required property' if names else "A request body is required"
    said = str(found.get("msg")).removeprefix("Value error, ")  # what pydantic puts before our own words
    return f"{'.'.join(names) or 'body'}: {said}"


def _names(place: tuple[object, ...]) -> list[str]:
    """Without where a request carries it, and which of several types was tried: `literal['a','b']`."""
    inner = place[1:] if place[:1] in _CARRIERS else place
    return [str(name) for name in inner if "[" not in str(name)]


_CARRIERS = (("body",), ("query",), ("path",), ("header",))


def _cut_off(request: Request, error: Exception) -> Response:
    """A client went away in the middle of its own request. Nobody hears the answer, and nothing is wrong with us."""
    return problem(400, "The request was cut off")


def _unexpected(request: Request, error: Exception) -> Response:
    """A defect of ours. The client gets an id to quote; the traceback stays in the log."""
    error_id = uuid4().hex[:12]
    logger.error("unexpected_error", error_id=error_id, path=request.url.path, exc_info=error)
    return problem(500, f"Internal server error (id {error_id})")
