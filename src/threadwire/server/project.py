"""A loaded project: its configuration, its graphs, and the project's own application."""

import os
from dataclasses import dataclass, replace
from functools import partial

import anyio.to_thread
from langgraph_sdk import Auth
from starlette.applications import Starlette

from threadwire.core.webhooks import WebhookRules
from threadwire.errors import ConfigError
from threadwire.graphs.config import ProjectConfig, load_config, prepare_environment
from threadwire.graphs.project_auth import load_auth
from threadwire.graphs.project_modules import LoadError, ProjectModules
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
    """`http.app`: the project's own routes."""
    persistence: ProjectPersistence
    """Where checkpoints and store items are stored. Opened once, at startup; a reload does not change it."""
    serializer: Serializer
    webhooks: WebhookRules
    auth: Auth | None = None
    """The project's own authentication; None if it has none, or if the server must not use it."""
    notes: tuple[str, ...] = ()
    """What the operator should know about the imported code."""


def read_project(settings: Settings) -> ProjectConfig:
    """Read the project file. With `insecure_no_auth`, the project has no auth. Raise `ConfigError` if the file is
    invalid or requires something that is not supported."""
    config = load_config(settings.config)
    return replace(config, auth=None) if settings.insecure_no_auth else config


def load_project(config: ProjectConfig, *, with_app: bool = True) -> Project:
    """Import the project's code, with its web application if this process serves it. A graph that fails to load is
    recorded with its error. Raise `ConfigError` if the application fails to load."""
    prepare_environment(config)
    modules = ProjectModules(config.root)
    return Project(
        config,
        load_registry(config, modules, graph_configs(os.environ)),
        load_user_app(config, modules) if with_app else None,
        load_persistence(config, modules),
        checkpoint_serializer(config.checkpointer),
        resolve_headers(config.webhooks, os.environ),
        load_project_auth(config, modules),
        notes=tuple(dict.fromkeys(modules.notes)),
    )


async def import_project(config: ProjectConfig, *, with_app: bool = True) -> Project:
    """Run `load_project` in a thread: importing the project's code must not block requests, and may run an
    event loop."""
    return await anyio.to_thread.run_sync(partial(load_project, config, with_app=with_app), abandon_on_cancel=True)


def load_project_auth(config: ProjectConfig, modules: ProjectModules) -> Auth | None:
    if config.auth is None:
        return None
    try:
        return load_auth(config.auth, modules)
    except ConfigError as error:
        raise ConfigError(f"{config.path}: {error.message}") from error


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
