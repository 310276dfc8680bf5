"""How this server authenticates: by the project's `Auth`, by API keys, by both, or not at all."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

from fastapi import FastAPI
from langgraph_sdk import Auth
from starlette.types import ASGIApp

from threadwire.engine.access import AccessRules, Authorization
from threadwire.engine.clock import system_clock
from threadwire.engine.own_rows import OwnRows
from threadwire.errors import ConfigError
from threadwire.graphs.auth_config import AuthConfig
from threadwire.graphs.config import ProjectConfig
from threadwire.graphs.project_auth import ProjectAuth
from threadwire.graphs.user_loop import UserLoop
from threadwire.http.authentication import PUBLIC_PATHS, Authentication, Authenticator
from threadwire.http.open_responses import OpenResponses
from threadwire.settings import Settings
from threadwire.storage.abc import Storage

API_KEY_SCHEME = {"apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"}}


class ServerAuth:
    """The authentication of a running server. `use` selects the rules of a project."""

    def __init__(self, storage: Storage, settings: Settings, loop: UserLoop, *, has_keys: bool) -> None:
        self._storage = storage
        self._settings = settings
        self._loop = loop
        self._has_keys = has_keys and not settings.insecure_no_auth
        self.authorization = Authorization()
        self.open_responses = OpenResponses(storage.keys, system_clock)
        self._authenticator: Authenticator | None = None

    @property
    def is_on(self) -> bool:
        return self._authenticator is not None

    def use(self, config: ProjectConfig, auth: Auth | None) -> None:
        """Use the rules of a project. Raises `ConfigError` if the project relies on auth and there is none."""
        project = None if auth is None else ProjectAuth(auth, self._loop, self._settings.auth_seconds)
        rules: AccessRules | None = project or (OwnRows() if self._has_keys else None)
        if rules is None and self.is_on:
            raise ConfigError(f'{config.path}: "auth" was removed. Restart the server to serve without authentication.')
        if rules is None and config.http.enable_custom_route_auth and not self._settings.insecure_no_auth:
            raise ConfigError(
                f'{config.path} uses "http"."enable_custom_route_auth", but neither "auth" nor API keys.'
                " Pass --insecure-no-auth to serve the project without authentication."
            )
        self.authorization.rules = rules
        if rules is not None:
            source = project if project is not None and project.can_authenticate else None
            self._authenticator = Authenticator(self._storage.keys, self._storage.tickets, source, system_clock)

    def middleware(self) -> Callable[[ASGIApp], Authentication] | None:
        """Return the middleware that authenticates requests; None if the server does not authenticate."""
        if self._authenticator is None:
            return None
        return partial(
            Authentication,
            authenticator=self._authenticator,
            rules=self._current_rules,
            open_responses=self.open_responses,
        )

    def _current_rules(self) -> AccessRules:
        assert self.authorization.rules is not None, "requests are only authenticated while there are rules"
        return self.authorization.rules


def describe_security(api: FastAPI, config: AuthConfig | None) -> None:
    """Add the security schemes to the OpenAPI description: those that the project describes, or API keys."""
    given = {} if config is None else config.openapi
    schemes = given.get("securitySchemes") or API_KEY_SCHEME
    security = given.get("security") or [{name: []} for name in schemes]
    setattr(api, "openapi", _Described(api.openapi, schemes, security, given.get("paths") or {}))  # noqa: B010


class _Described:
    """Generates the extended description. Like FastAPI, it returns the same object until the description changes."""

    def __init__(
        self, generate: Callable[[], dict[str, Any]], schemes: Any, security: Any, paths: dict[str, Any]
    ) -> None:
        self._generate = generate
        self._schemes = schemes
        self._security = security
        self._paths = paths
        self._source: dict[str, Any] | None = None
        self._result: dict[str, Any] = {}

    def __call__(self) -> dict[str, Any]:
        source = self._generate()
        if source is not self._source:
            self._source, self._result = source, self._described(source)
        return self._result

    def _described(self, source: dict[str, Any]) -> dict[str, Any]:
        described = deepcopy(source)
        described["components"] = {**described.get("components", {}), "securitySchemes": self._schemes}
        described["security"] = self._security
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                if path in PUBLIC_PATHS:
                    operation["security"] = []
                operation.update((self._paths.get(path) or {}).get(method) or {})
        return described
