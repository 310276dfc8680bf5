"""Binding the arguments of an endpoint without FastAPI, which takes longer to bind them than to validate a body."""

from inspect import Parameter, signature
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from starlette.responses import Response
from starlette.types import Scope

from threadwire.http.json_body import parse_json


class PlainEndpoint:
    """An endpoint that takes only path parameters as text, at most one body, and optional query parameters and headers.
    It is called directly if the request has none of the optional ones and its body is valid. Every other request goes
    through FastAPI, so that errors have one form."""

    def __init__(self, route: APIRoute, body: tuple[str, type[BaseModel]] | None) -> None:
        dependant = route.dependant
        self.call = route.endpoint
        self.takes_body = body is not None
        self._body = body
        self._headers = frozenset(each.alias.lower().encode("latin-1") for each in dependant.header_params)
        self._takes_query = bool(dependant.query_params)

    @classmethod
    def of(cls, route: APIRoute) -> "PlainEndpoint | None":
        """Return None if FastAPI has to call the endpoint."""
        dependant, parameters = route.dependant, signature(route.endpoint).parameters
        optional = [*dependant.header_params, *dependant.query_params]
        bound = {each.name for each in (*dependant.path_params, *optional, *dependant.body_params)}
        if (
            dependant.dependencies
            or bound != set(parameters)  # it takes the request itself, or something else that FastAPI injects
            or any(each.field_info.annotation is not str for each in dependant.path_params)
            or not all(_has_plain_default(parameters[each.name]) for each in optional)
            or not _returns_response(route)
        ):
            return None
        if not dependant.body_params:
            return cls(route, None)
        [body, *others] = dependant.body_params
        model = body.field_info.annotation
        if others or not isinstance(model, type) or not issubclass(model, BaseModel):
            return None
        return cls(route, (body.name, model))

    def bind(self, scope: Scope, path_params: dict[str, Any], body: bytes) -> dict[str, Any] | None:
        """Return the arguments, or None if FastAPI has to bind them. Raises `Invalid` if the body is not JSON."""
        if self._takes_query and scope["query_string"]:
            return None
        if self._headers and any(name in self._headers for name, _ in scope["headers"]):
            return None
        if self._body is None:
            return path_params
        if not body:
            return None
        name, model = self._body
        parsed = parse_json(body)
        try:
            return {**path_params, name: model.model_validate(parsed)}
        except ValidationError:
            return None


def _has_plain_default(parameter: Parameter) -> bool:
    return parameter.default is not Parameter.empty and not isinstance(parameter.default, FieldInfo)


def _returns_response(route: APIRoute) -> bool:
    """Whether the endpoint returns a response of its own, which FastAPI would not change."""
    returned = signature(route.endpoint).return_annotation
    return isinstance(returned, type) and issubclass(returned, Response)
