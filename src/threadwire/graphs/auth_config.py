"""The `auth` section of langgraph.json."""

from dataclasses import dataclass, field
from typing import Any

from threadwire.errors import ConfigError
from threadwire.graphs.code_reference import CodeReference, kind_of, split_source


@dataclass(frozen=True)
class AuthConfig:
    source: CodeReference
    """The project's `Auth` object."""
    openapi: dict[str, Any] = field(default_factory=dict)
    """`securitySchemes`, `security` and `paths` to add to the OpenAPI description."""


def read_auth(value: object) -> AuthConfig | None:
    """Raises `ConfigError` with a one-line message that says what to change. `disable_studio_auth` has no effect: there
    is no Studio user to disable. `cache` has no effect either: handlers decide what they cache."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ConfigError(f'"auth" must be an object, not {kind_of(value)}.')
    if value.get("path") is None:
        raise ConfigError('"auth" has no "path". Add e.g. "path": "./auth.py:auth".')
    openapi = value.get("openapi", {})
    if not isinstance(openapi, dict):
        raise ConfigError(f'"auth"."openapi" must be an object, not {kind_of(openapi)}.')
    for name, kind in (("securitySchemes", dict), ("paths", dict), ("security", list)):
        if not isinstance(openapi.get(name, kind()), kind):
            raise ConfigError(f'"auth"."openapi"."{name}" must be {kind_of(kind())}, not {kind_of(openapi[name])}.')
    return AuthConfig(CodeReference(*split_source('"auth"."path"', value["path"])), openapi)
