"""The composition root: the only place that wires things together and names a driver."""

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.errors import ConfigError
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.http import problems
from threadwire.http.limits import LOOPBACK_HOSTS, LOOPBACK_ORIGIN, BodyLimit, CorsWhenAsked, TrustedSource
from threadwire.http.streaming import OpenStreams
from threadwire.protocols.ag_ui.routes import ag_ui_routes
from threadwire.protocols.langgraph.routes import langgraph_routes
from threadwire.server.api_page import api_page_route
from threadwire.server.health import system_routes
from threadwire.settings import Settings
from threadwire.storage.abc import Storage

EXPOSED_HEADERS = ["Location", "Content-Location", "X-Pagination-Total", "X-Pagination-Next"]


@asynccontextmanager
async def open_server(settings: Settings, *, dev: bool = False) -> AsyncIterator[tuple[FastAPI, Engine, OpenStreams]]:
    """A running engine and the application over it; everything stops when the block ends."""
    registry = load_graphs(settings)
    async with (
        open_storage(settings) as storage,
        open_engine(storage, registry, capacity=settings.concurrency, drain=settings.drain_seconds) as engine,
    ):
        streams = OpenStreams()
        try:
            yield create_app(engine, streams, settings, dev=dev), engine, streams
        finally:
            streams.close()


def load_graphs(settings: Settings) -> GraphRegistry:
    config = load_config(settings.config)
    if config.wants_auth and not settings.insecure_no_auth:
        raise ConfigError(
            f"{settings.config} asks for `auth`, which Threadwire does not offer yet:"
            " nobody would be asked who they are. Say --insecure-no-auth to serve it all the same."
        )
    prepare_environment(config)
    return load_registry(config)


def open_storage(settings: Settings) -> AbstractAsyncContextManager[Storage]:
    match settings.storage:
        case "sqlite":
            from threadwire.storage.sqlite import open_sqlite_storage

            return open_sqlite_storage(settings.data)
        case "memory":
            from threadwire.storage.memory import open_memory_storage

            return open_memory_storage()
        case other:
            raise ConfigError(f"There is no storage called {other!r}; choose sqlite or memory")


def create_app(engine: Engine, streams: OpenStreams, settings: Settings, *, dev: bool) -> FastAPI:
    app = FastAPI(
        title="Threadwire", version=version("threadwire"), redirect_slashes=False, docs_url=None, redoc_url=None
    )
    problems.install(app)
    app.include_router(system_routes(engine))
    app.include_router(api_page_route(app))
    app.include_router(langgraph_routes(engine, streams))
    app.include_router(ag_ui_routes(engine, streams, settings.when_busy))
    origins = origin_pattern(settings, dev=dev)
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    app.add_middleware(CorsWhenAsked, origins=origins, exposed=EXPOSED_HEADERS)
    app.add_middleware(TrustedSource, hosts=LOOPBACK_HOSTS | settings.allowed_hosts, origins=re.compile(origins))
    return app


def origin_pattern(settings: Settings, *, dev: bool) -> str:
    """Which pages may call us: the configured ones, and in development any on loopback."""
    allowed = [re.escape(origin) for origin in sorted(settings.allowed_origins)]
    if dev:
        allowed.append(LOOPBACK_ORIGIN)
    return "|".join(f"(?:{each})" for each in allowed) or r"(?!)"
