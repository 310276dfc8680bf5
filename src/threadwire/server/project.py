"""A project, loaded: what its file says, its graphs, and the application it brings along."""

import os
from dataclasses import dataclass

import anyio.to_thread
from starlette.applications import Starlette

from threadwire.core.webhooks import WebhookRules
from threadwire.errors import ConfigError
from threadwire.graphs.config import ProjectConfig, load_config, prepare_environment
from threadwire.graphs.memory import Memory, load_memory
from threadwire.graphs.modules import CannotLoad, ProjectModules
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.graphs.serializer import Serializer, checkpoint_serializer
from threadwire.graphs.webhooks import resolve_headers
from threadwire.settings import Settings


@dataclass(frozen=True)
class Project:
    config: ProjectConfig
    registry: GraphRegistry
    own_app: Starlette | None
    """`http.app`: the user's own routes."""
    memory: Memory
    """Where checkpoints and memories are kept. Opened once, at the start: loading the project anew changes nothing
    there."""
    serializer: Serializer
    webhooks: WebhookRules


def read_project(settings: Settings) -> ProjectConfig:
    """What its file says. Raises `ConfigError` also for what the file asks and Threadwire cannot do."""
    config = load_config(settings.config)
    if not settings.insecure_no_auth:
        refuse_open_door(config)
    return config


def refuse_open_door(config: ProjectConfig) -> None:
    """Raise `ConfigError` if the project counts on somebody being asked who they are."""
    asked = '"auth"' if config.wants_auth else '"http"."enable_custom_route_auth"'
    if config.wants_auth or config.http.enable_custom_route_auth:
        raise ConfigError(
            f"{config.path} asks for {asked}, which Threadwire does not offer yet:"
            " nobody would be asked who they are. Say --insecure-no-auth to serve it all the same."
        )


def load_project(config: ProjectConfig) -> Project:
    """Import its code. A graph that cannot be loaded is kept with what is wrong; an application is needed whole."""
    prepare_environment(config)
    modules = ProjectModules(config.root)
    return Project(
        config,
        load_registry(config, modules),
        load_own_app(config, modules),
        load_memory(config, modules),
        checkpoint_serializer(config.checkpointer),
        resolve_headers(config.webhooks, os.environ),
    )


async def import_project(config: ProjectConfig) -> Project:
    """`load_project` in a thread: the user's code must not hold up requests while it is imported, and may want to run
    an event loop of its own."""
    return await anyio.to_thread.run_sync(load_project, config, abandon_on_cancel=True)


def load_own_app(config: ProjectConfig, modules: ProjectModules) -> Starlette | None:
    source = config.http.app
    if source is None:
        return None
    try:
        found = getattr(modules.load(source), source.attribute, None)
    except CannotLoad as failure:
        raise ConfigError(f'{config.path}: "http"."app": {failure}') from failure
    if not isinstance(found, Starlette):
        raise ConfigError(
            f'{config.path}: "http"."app": {source} is {_described(found)}, not a Starlette or FastAPI application.'
        )
    return found


def _described(found: object) -> str:
    return "not there" if found is None else f"an object of type {type(found).__name__}"
