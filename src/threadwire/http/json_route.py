"""A FastAPI route class for JSON bodies."""

from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Any
from urllib.parse import unquote

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from threadwire.errors import Invalid
from threadwire.http.json_body import parse_json
from threadwire.http.plain_endpoint import PlainEndpoint
from threadwire.http.problems import Responses, error_responses


class JsonRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = parse_json(await self.body())
        return self._json


class JsonRoute(APIRoute):
    """A route that parses its body as JSON within our limits, whatever the Content-Type.

    `curl -d` labels JSON as a form. Ignoring the label is safe: a foreign page could label JSON as a form to avoid a
    preflight request, but its requests are rejected because of their Origin, whatever the label.

    A plain request is bound without FastAPI; see `PlainEndpoint`. If the server is not mounted below a prefix, such a
    request does not even get here: `DirectRoutes` handles it.

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
        endpoint = PlainEndpoint.of(self)
        takes_body = self.body_field is not None

        async def handle(original: Request) -> Response:
            if b"%2" in (original.scope.get("raw_path") or b"") and not self._matches_undecoded(original.scope):
                raise HTTPException(404)
            request = JsonRequest(original.scope, original.receive)
            if takes_body and request.headers.get("content-type") != "application/json":
                request = JsonRequest(_with_json_content_type(original.scope), original.receive)
            if endpoint is not None:
                body = await request.body() if takes_body else b""
                if (arguments := endpoint.bind(request.scope, request.path_params, body)) is not None:
                    response: Response = await endpoint.call(**arguments)
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


def _with_json_content_type(scope: Scope) -> Scope:
    others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
    return {**scope, "headers": [*others, (b"content-type", b"application/json")]}
