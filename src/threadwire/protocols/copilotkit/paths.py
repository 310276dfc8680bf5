"""Paths below the path of the runtime: ids with any characters, superfluous slashes, and paths that do not exist."""

import re
from collections.abc import Sequence

from fastapi.routing import APIRoute
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from threadwire.protocols.copilotkit.internal_redirect import InternalRedirect
from threadwire.protocols.copilotkit.problems import not_allowed, not_found


class _Anything(Convertor[str]):
    """`{name:anything}`. Unlike Starlette's own `path` it matches newlines, and does not match the empty string."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", _Anything())


def fallback_response(request: Request, known: Sequence[APIRoute]) -> Response:
    """The response for a path with superfluous slashes, a known path with another method, or an unknown path."""
    path = request.scope["path"]
    if (normalized := re.sub("/+", "/", path).rstrip("/")) != path:
        return InternalRedirect(normalized)
    below = path[len(request.scope.get("root_path", "")) :]
    allowed = {method for route in known if route.path_regex.match(below) for method in route.methods or ()}
    return not_allowed(allowed) if allowed else not_found()
