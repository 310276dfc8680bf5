"""A FastAPI route class for JSON bodies."""

from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Any
from urllib.parse import unquote

from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from threadwire.errors import Invalid
from threadwire.http.json_body import parse_json
from threadwire.http.problems import Responses, error_responses


class JsonRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = parse_json(await self.body())
        return self._json


class JsonRoute(APIRoute):
    """A route that parses its body as JSON within our limits, whatever the Content-Type.

    `curl -d` labels JSON as a form. Ignoring the label does not help foreign pages, which can send forms but not JSON
    without a preflight request: they are rejected by their Origin, whatever they send.

    FastAPI takes longer to bind arguments than to parse and validate the body. So a route that takes only path
    parameters and a body binds valid requests itself. Everything else, including every invalid request, goes through
    FastAPI, so that errors have one form.

    An encoded slash in the path does not separate segments, although the web server decodes it before routing. A proxy
    may have checked the path as it was sent.

    The error responses that all such routes share are documented here; a route adds only its own.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        has_path_parameters, has_parameters = "{" in path, bool(signature(endpoint).parameters)
        options["responses"] = {
            **self.common_errors(has_path_parameters=has_path_parameters, has_parameters=has_parameters),
            **(options.get("responses") or {}),
        }
        super().__init__(path, endpoint, **options)

    @staticmethod
    def common_errors(*, has_path_parameters: bool, has_parameters: bool) -> Responses:
        """The error responses that every such route shares, by the kind of its parameters."""
        return {
            **(error_responses(404) if has_path_parameters else {}),
            **(error_responses(422) if has_parameters else {}),
        }

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle_with_fastapi = super().get_route_handler()
        model = self._plain_body_model()
        takes_body = self.body_field is not None

        async def handle(original: Request) -> Response:
            if b"%2" in (original.scope.get("raw_path") or b"") and not self._matches_undecoded(original.scope):
                raise HTTPException(404)
            request = JsonRequest(original.scope, original.receive)
            if takes_body and request.headers.get("content-type") != "application/json":
                request = JsonRequest(_with_json_content_type(original.scope), original.receive)
            if model is not None and (arguments := await self._bind(request, model)) is not None:
                response: Response = await self.endpoint(**arguments)
                return response
            try:
                return await handle_with_fastapi(request)
            except HTTPException as error:
                if isinstance(error.__cause__, Invalid):  # FastAPI wraps the error of our JSON parser
                    raise error.__cause__ from None
                raise

        return handle

    def _matches_undecoded(self, scope: Scope) -> bool:
        """Whether this route also matches the path with its encoded slashes left encoded."""
        path = scope["raw_path"].decode("latin-1").replace("%2f", "%252F").replace("%2F", "%252F")
        match, _ = self.matches({**scope, "path": unquote(path)})
        return match is not Match.NONE

    def _plain_body_model(self) -> type[BaseModel] | None:
        """The model of the body, if the route takes nothing but that, path parameters and optional headers."""
        dependant = self.dependant
        bound = {each.name for each in (*dependant.path_params, *dependant.header_params, *dependant.body_params)}
        if len(dependant.body_params) != 1 or dependant.dependencies:
            return None
        if bound != set(signature(self.endpoint).parameters):
            return None  # it takes query parameters, the request itself, or something else that FastAPI injects
        if any(each.field_info.annotation is not str for each in dependant.path_params):
            return None
        if any(each.field_info.is_required() for each in dependant.header_params):
            return None
        model = dependant.body_params[0].field_info.annotation
        return model if isinstance(model, type) and issubclass(model, BaseModel) else None

    async def _bind(self, request: JsonRequest, model: type[BaseModel]) -> dict[str, Any] | None:
        """The endpoint's arguments; None if FastAPI has to bind them."""
        if any(each.alias in request.headers for each in self.dependant.header_params):
            return None
        if not await request.body():
            return None
        parsed = await request.json()
        try:
            body = model.model_validate(parsed)
        except ValidationError:
            return None
        return {**request.path_params, self.dependant.body_params[0].name: body}


def _with_json_content_type(scope: Scope) -> Scope:
    others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
    return {**scope, "headers": [*others, (b"content-type", b"application/json")]}
