"""Error responses in the format of CopilotKit's clients: `{"error": what, "message": why}`."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from threadwire import errors
from threadwire.http.json_route import JsonRoute
from threadwire.http.problems import (
    JsonResponse,
    Responses,
    error_responses,
    headers_of,
    status_of,
    validation_messages,
)

_TITLES: dict[type[errors.ThreadwireError], str] = {
    errors.AgentNotFound: "Agent not found",
    errors.ThreadNotFound: "Thread not found",
    errors.NotFound: "Not found",
    errors.ThreadBusy: "Thread already running",
    errors.Conflict: "Conflict",
    errors.QueueFull: "Too many pending runs",
}


class RuntimeProblem(BaseModel):
    """The body of an error response to CopilotKit's clients."""

    model_config = ConfigDict(extra="forbid")

    error: str = Field(description="The kind of error, in a word or a sentence.")
    message: str | None = None
    details: str | None = None
    retryable: bool | None = None


def runtime_error_responses(*statuses: int) -> Responses:
    return error_responses(*statuses, shape=RuntimeProblem)


class RuntimeRoute(JsonRoute):
    """A route whose errors have this format. Internal errors are reported as on every other route."""

    @staticmethod
    def common_errors(*, has_path_parameters: bool, has_parameters: bool) -> Responses:
        return {
            **(runtime_error_responses(404) if has_path_parameters else {}),
            **(runtime_error_responses(400) if has_parameters else {}),
        }

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except errors.ThreadwireError as error:
                return _expected(error)
            except RequestValidationError as error:
                return _malformed(error)
            except HTTPException as error:
                return JsonResponse({"error": error.detail}, error.status_code, headers=dict(error.headers or {}))

        return handle_errors


def _expected(error: errors.ThreadwireError) -> JsonResponse:
    if isinstance(error, errors.Invalid):
        title = "Invalid request" if isinstance(error, errors.BadRequest) else "Invalid request body"
        return JsonResponse({"error": title, "details": error.message}, 400)
    title = next((_TITLES[kind] for kind in type(error).__mro__ if kind in _TITLES), "Failed")
    body: dict[str, object] = {"error": title, "message": error.message}
    if isinstance(error, errors.QueueFull):
        body["retryable"] = True
    return JsonResponse(body, status_of(error), headers=headers_of(error))


def _malformed(error: RequestValidationError) -> JsonResponse:
    validation_errors = error.errors()
    in_body = any(each["loc"][:1] == ("body",) for each in validation_errors)
    title = "Invalid request body" if in_body else "Invalid request"
    return JsonResponse({"error": title, "details": validation_messages(validation_errors)}, 400)


def invalid_envelope(message: str, status: int = 400) -> JsonResponse:
    return JsonResponse({"error": "invalid_request", "message": message}, status)


def not_found() -> JsonResponse:
    return JsonResponse({"error": "Not found"}, 404)


def not_allowed(allowed: set[str]) -> JsonResponse:
    return JsonResponse({"error": "Method not allowed"}, 405, headers={"Allow": ", ".join(sorted(allowed))})
