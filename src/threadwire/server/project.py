"""A loaded project: its configuration, its graphs, and the user's own application."""

import os
from dataclasses import dataclass

import anyio.to_thread
from starlette.applications import Starlette

from threadwire.core.webhooks import WebhookRules
from threadwire.errors import ConfigError
from threadwire.graphs.config import ProjectConfig, load_config, prepare_environment
from threadwire.graphs.modules import LoadError, ProjectModules
from threadwire.graphs.project_persistence import ProjectPersistence, load_persistence
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.graphs.serializer import Serializer, checkpoint_serializer
from threadwire.graphs.webhook_config import resolve_headers
from threadwire.server.stock_variables import graph_configs
from threadwire.settings import Settings


@dataclass(frozen=True)
class Project:
    config: ProjectConfig
    registry: GraphRegistry
    user_app: Starlette | None
    """`http.app`: the user's own routes."""
    persistence: ProjectPersistence
    """Where checkpoints and store items are kept. Opened once, at startup; a reload does not change it."""
    serializer: Serializer
    webhooks: WebhookRules
    notes: tuple[str, ...] = ()
    """What the operator should know about the imported code."""


def read_project(settings: Settings) -> ProjectConfig:
    """Read the project file. Raise `ConfigError` if it is invalid or requires something that is not supported."""
    config = load_config(settings.config)
    if not settings.insecure_no_auth:
        reject_unsupported_auth(config)
    return config


def reject_unsupported_auth(config: ProjectConfig) -> None:
    """Raise `ConfigError` if the project relies on authentication."""
    key = '"auth"' if config.wants_auth else '"http"."enable_custom_route_auth"'
    if config.wants_auth or config.http.enable_custom_route_auth:
        raise ConfigError(
            f"{config.path} uses {key}, which Threadwire does not support yet."
            " Pass --insecure-no-auth to serve the project without authentication."
        )


def load_project(config: ProjectConfig) -> Project:
    """Import the project's code. A graph that fails to load is recorded with its error. Raise `ConfigError` if the
    application fails to load."""
    prepare_environment(config)
    modules = ProjectModules(config.root)
    return Project(
        config,
        load_registry(config, modules, graph_configs(os.environ)),
        load_user_app(config, modules),
        load_persistence(config, modules),
        checkpoint_serializer(config.checkpointer),
        resolve_headers(config.webhooks, os.environ),
        notes=tuple(dict.fromkeys(modules.notes)),
    )


async def import_project(config: ProjectConfig) -> Project:
    """Run `load_project` in a thread: importing user code must not block requests, and it may run its own event
    loop."""
    return await anyio.to_thread.run_sync(load_project, config, abandon_on_cancel=True)


def load_user_app(config: ProjectConfig, modules: ProjectModules) -> Starlette | None:
    source = config.http.app
    if source is None:
        return None
    try:
        loaded = getattr(modules.load(source), source.attribute, None)
    except LoadError as failure:
        raise ConfigError(f'{config.path}: "http"."app": {failure}') from failure
    if not isinstance(loaded, Starlette):
        raise ConfigError(
            f'{config.path}: "http"."app": {source} must be a Starlette or FastAPI application,'
            f" but is {_describe(loaded)}."
        )
    return loaded


def _describe(loaded: object) -> str:
    return "not defined" if loaded is None else f"an object of type {type(loaded).__name__}"
