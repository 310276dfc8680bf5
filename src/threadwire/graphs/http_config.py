"""The `http` section of `langgraph.json`: which routes are served, CORS, headers and the custom application."""

import re
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from threadwire.errors import ConfigError
from threadwire.graphs.code_reference import CodeReference, kind_of, split_source

Names = tuple[str, ...]


class _Section(BaseModel):
    # Strict, because in JSON a quoted "false" is an error. `unknown_keys` reports unknown keys.
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", arbitrary_types_allowed=True)


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"invalid regular expression: {error}") from None
    return pattern


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


List = Annotated[Names, BeforeValidator(_as_tuple)]


class Cors(_Section):
    """CORS settings that replace the defaults."""

    allow_origins: List = ()
    allow_origin_regex: Annotated[str, AfterValidator(_compiles)] | None = None
    allow_methods: List = ("*",)
    allow_headers: List = ("*",)
    allow_credentials: bool = False
    expose_headers: List = ()
    max_age: Annotated[int, Field(ge=0)] = 600


class HeaderChoice(_Section):
    """A selection of request headers. Names may contain `*`; `excludes` takes precedence over `includes`."""

    includes: List | None = None
    excludes: List | None = None

    def chosen(self, header: str) -> bool:
        """Whether a header, given in lower case, is selected. Credentials must be included by their full name."""
        if _matches(header, self.excludes):
            return False
        patterns = [each.lower() for each in self.includes or ()]
        return header in patterns if header in CREDENTIALS else _matches(header, patterns)


CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "x-tenant-id", "x-service-key"})


def _matches(header: str, patterns: "Names | list[str] | None") -> bool:
    return any(fnmatchcase(header, pattern.lower()) for pattern in patterns or ())


def _prefix(text: str) -> str:
    prefix = text.rstrip("/")
    if prefix and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", prefix):
        raise ValueError('must look like "/api"')
    return prefix


def _application(value: object) -> CodeReference:
    return CodeReference(*split_source('"http"."app"', value))


class HttpConfig(_Section):
    app: Annotated[CodeReference, BeforeValidator(_application)] | None = None
    """The project's own application, whose routes, middleware and lifespan become part of the server."""
    mount_prefix: Annotated[str, AfterValidator(_prefix)] = ""
    cors: Cors | None = None
    configurable_headers: HeaderChoice | None = None
    logging_headers: HeaderChoice | None = None
    middleware_order: Literal["auth_first", "middleware_first"] | None = None
    enable_custom_route_auth: bool = False
    disable_assistants: bool = False
    disable_threads: bool = False
    disable_runs: bool = False
    disable_store: bool = False
    disable_mcp: bool = False
    disable_a2a: bool = False
    disable_meta: bool = False
    disable_ui: bool = False
    disable_webhooks: bool = False

    def serves(self, path: str) -> bool:
        """Whether the route with this path is served."""
        return not any(getattr(self, flag) and pattern.match(path) for flag, pattern in _ROUTES.items())


_ROUTES = {
    flag: re.compile(pattern)
    for flag, pattern in {
        "disable_assistants": r"/assistants(/|$)",
        "disable_threads": r"/threads(/(?!\{thread_id\}/runs(/|$))|$)",
        "disable_runs": r"(/threads/\{thread_id\})?/runs(/|$)",
        "disable_store": r"/store(/|$)",
        "disable_mcp": r"/mcp(/|$)",
        "disable_a2a": r"(/a2a(/|$)|/\.well-known/agent-card\.json)",
        "disable_ui": r"/ui(/|$)",
        "disable_meta": r"/(info|metrics|docs|openapi\.json)$",
    }.items()
}


def read_http(value: object) -> HttpConfig:
    """Raises `ConfigError` with a one-line message that says what to change."""
    if value is None:
        return HttpConfig()
    if not isinstance(value, dict):
        raise ConfigError(f'"http" must be an object, not {kind_of(value)}.')
    try:
        return HttpConfig.model_validate({key: inner for key, inner in value.items() if inner is not None})
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(f'"{key}"' for key in ("http", *first["loc"]) if isinstance(key, str))
        message = first["msg"].removeprefix("Value error, ").replace("tuple", "list")
        raise ConfigError(f"{path}: {message}.") from None
