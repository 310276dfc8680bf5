"""Refusals in the shapes that CopilotKit's clients read: `{"error": what, "message": why}`."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from threadwire import errors
from threadwire.http.limits import JsonRoute
from threadwire.http.problems import Json, Responses, foreseen, sentences, status_of

_WORDS: dict[type[errors.ThreadwireError], str] = {
    errors.AgentNotFound: "Agent not found",
    errors.ThreadNotFound: "Thread not found",
    errors.NotFound: "Not found",
    errors.ThreadBusy: "Thread already running",
    errors.Conflict: "Conflict",
}


class RuntimeProblem(BaseModel):
    """How an error looks to CopilotKit's clients."""

    model_config = ConfigDict(extra="forbid")

    error: str = Field(description="What is wrong, in a word or a sentence.")
    message: str | None = None
    details: str | None = None
    retryable: bool | None = None


def refused_with(*statuses: int) -> Responses:
    return foreseen(*statuses, shape=RuntimeProblem)


class RuntimeRoute(JsonRoute):
    """A route whose refusals are put in these words. What is a defect of ours is reported as everywhere else."""

    @staticmethod
    def refusals(*, named: bool, asked: bool) -> Responses:
        return {**(refused_with(404) if named else {}), **(refused_with(400) if asked else {})}

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def in_these_words(request: Request) -> Response:
            try:
                return await answer(request)
            except errors.ThreadwireError as error:
                return refusal(error)
            except RequestValidationError as error:
                return _malformed(error)
            except HTTPException as error:
                return Json({"error": error.detail}, error.status_code, headers=dict(error.headers or {}))

        return in_these_words


def refusal(error: errors.ThreadwireError) -> Json:
    if isinstance(error, errors.Invalid):
        what = "Invalid request" if isinstance(error, errors.BadRequest) else "Invalid request body"
        return Json({"error": what, "details": error.message}, 400)
    what = next((_WORDS[kind] for kind in type(error).__mro__ if kind in _WORDS), "Failed")
    return Json({"error": what, "message": error.message}, status_of(error))


def _malformed(error: RequestValidationError) -> Json:
    found = error.errors()
    in_body = any(each["loc"][:1] == ("body",) for each in found)
    what = "Invalid request body" if in_body else "Invalid request"
    return Json({"error": what, "details": sentences(found)}, 400)


def invalid_envelope(message: str, status: int = 400) -> Json:
    return Json({"error": "invalid_request", "message": message}, status)


def not_found() -> Json:
    return Json({"error": "Not found"}, 404)


def not_allowed(allowed: set[str]) -> Json:
    return Json({"error": "Method not allowed"}, 405, headers={"Allow": ", ".join(sorted(allowed))})
