"""The one table from errors to HTTP, in the shape LangGraph's clients read: `{"detail": "a sentence"}`."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

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
    errors.StorageError: 503,
}


def status_of(error: errors.ThreadwireError) -> int:
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


class Json(Response):
    """A JSON response; encoding cannot fail."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return dumps(content)


class Problem(BaseModel):
    """How the API describes its errors."""

    detail: str


def problem(status: int, detail: str) -> Json:
    return Json({"detail": detail}, status)


def install(app: FastAPI) -> None:
    app.add_exception_handler(errors.ThreadwireError, _expected)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def _expected(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.ThreadwireError)
    return problem(status_of(error), error.message)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Json({"detail": error.detail}, error.status_code, headers=dict(error.headers or {}))


def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return problem(422, "Invalid JSON in request body")
    return problem(422, sentences(found))


def sentences(found: Sequence[dict[str, Any]]) -> str:
    """What pydantic found, one line for each mistake."""
    return "\n".join(_sentence(each) for each in found[:10])


def _sentence(found: dict[str, object]) -> str:
    place = found.get("loc")
    names = [str(name) for name in place if name not in ("body", "query", "path")] if isinstance(place, tuple) else []
    if found.get("type") == "missing":
        return f'"{names[-1]}" is a required property' if names else "A request body is required"
    return f"{'.'.join(names) or 'body'}: {found.get('msg')}"


def _unexpected(request: Request, error: Exception) -> Response:
    """A defect of ours. The client gets an id to quote; the traceback stays in the log."""
    error_id = uuid4().hex[:12]
    logger.error("unexpected_error", error_id=error_id, path=request.url.path, exc_info=error)
    return problem(500, f"Internal server error (id {error_id})")
