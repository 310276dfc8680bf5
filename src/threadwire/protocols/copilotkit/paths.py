"""Addresses below the runtime's: ids that may hold anything, slashes too many, and where there is nothing."""

import re
from collections.abc import Sequence

from fastapi.routing import APIRoute
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from threadwire.protocols.copilotkit.forwarding import Forwarded
from threadwire.protocols.copilotkit.problems import not_allowed, not_found


class _Anything(Convertor[str]):
    """`{name:anything}`, which Starlette's own `path` is not: that takes no newline, and also takes nothing at all."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", _Anything())


def otherwise(request: Request, known: Sequence[APIRoute]) -> Response:
    """A known address with slashes too many, a known one with another verb, or an unknown one."""
    path = request.scope["path"]
    if (tidy := re.sub("/+", "/", path).rstrip("/")) != path:
        return Forwarded(tidy)
    below = path[len(request.scope.get("root_path", "")) :]
    allowed = {verb for route in known if route.path_regex.match(below) for verb in route.methods or ()}
    return not_allowed(allowed) if allowed else not_found()
