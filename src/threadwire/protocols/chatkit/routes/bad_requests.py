"""A route class that rejects invalid requests with 400, and names every invalid field.

ChatKit's client retries most errors, and treats a 4xx as final.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from threadwire.errors import BadRequest, Invalid, TooLarge
from threadwire.http.json_route import JsonRoute
from threadwire.http.problems import Responses, error_responses, validation_messages


class ChatKitRoute(JsonRoute):
    @staticmethod
    def common_errors(*, has_path_parameters: bool, has_parameters: bool) -> Responses:
        return error_responses(400, 404) if has_parameters else {}

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle_json = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handle_json(request)
            except RequestValidationError as error:
                raise BadRequest(_described(error)) from error
            except ValidationError as error:  # the parameters of an operation
                raise BadRequest(validation_messages([_without_tag(each) for each in error.errors()])) from error
            except TooLarge:
                raise
            except Invalid as error:
                raise BadRequest(error.message) from error

        return handle


def _without_tag(error: Any) -> dict[str, Any]:
    """An error whose location does not start with the operation."""
    return {**error, "loc": tuple(error["loc"][1:])}


def _described(error: RequestValidationError) -> str:
    found = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return "Invalid JSON in request body"
    return validation_messages(found)
