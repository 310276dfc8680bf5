"""The composition root: the only place that wires things together and names a driver."""

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from dataclasses import dataclass
from importlib.metadata import version

import anyio
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from threadwire.core.records import Ttl
from threadwire.engine.expiry import Expiry
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.errors import ConfigError
from threadwire.graphs.http_section import HeaderChoice, HttpSection
from threadwire.graphs.persistence import ThreadTtlConfig
from threadwire.graphs.serializer import Serializer
from threadwire.http import problems
from threadwire.http.body_limit import BodyLimit
from threadwire.http.cors import CorsWhenAsked
from threadwire.http.headers import Chosen, ConfigurableHeaders, RequestLog
from threadwire.http.streaming import OpenStreams
from threadwire.http.trusted_source import LOOPBACK_HOSTS, LOOPBACK_ORIGIN, TrustedSource
from threadwire.http.webhooks import WebhookCalls
from threadwire.protocols.ag_ui.routes import ag_ui_routes
from threadwire.protocols.ag_ui.running import Manners, UnknownThread
from threadwire.protocols.copilotkit.agents import Agents
from threadwire.protocols.copilotkit.routes import PREFIX as COPILOTKIT
from threadwire.protocols.copilotkit.routes import copilotkit_routes
from threadwire.protocols.langgraph.routes import langgraph_routes
from threadwire.protocols.langgraph.webhooks import LangGraphWebhooks
from threadwire.server.api_page import api_page_route
from threadwire.server.composing import below, with_own_routes
from threadwire.server.health import system_routes
from threadwire.server.metrics import metrics_route
from threadwire.server.project import Project, import_project, read_project
from threadwire.server.switch import Switch, open_switch
from threadwire.settings import Settings
from threadwire.storage.abc import Storage

EXPOSED_HEADERS = ("Location", "Content-Location", "X-Pagination-Total", "X-Pagination-Next")


@dataclass
class Server:
    """What is running. `app` is what a web server is given; it stays the same when the project is loaded anew."""

    settings: Settings
    dev: bool
    project: Project
    engine: Engine
    streams: OpenStreams
    app: Switch
    webhooks: LangGraphWebhooks

    async def use(self, project: Project) -> None:
        """Serve this project from now on: its routes for new requests, its graphs for new runs and reads."""
        await self.app.use(build_app(project, self), project.own_app)
        await self.engine.use_graphs(project.registry)
        self.webhooks.use(project.webhooks, muted=project.config.http.disable_webhooks)
        self.project = project


@asynccontextmanager
async def open_server(settings: Settings, *, dev: bool = False) -> AsyncIterator[Server]:
    """A running engine and the application over it; everything stops when the block ends."""
    project = await import_project(read_project(settings))
    calls = WebhookCalls(project.webhooks)
    webhooks = LangGraphWebhooks(calls, muted=project.config.http.disable_webhooks)
    async with (
        calls.open(),
        open_storage(settings, project.serializer) as storage,
        open_engine(
            storage,
            project.registry,
            project.memory,
            capacity=settings.concurrency,
            drain=settings.drain_seconds,
            keep_temporary=settings.keep_temporary_seconds,
            webhooks=webhooks,
            expiry=expiry_of(project.config.checkpointer.ttl),
        ) as engine,
        open_switch() as switch,
    ):
        server = Server(settings, dev, project, engine, OpenStreams(), switch, webhooks)
        await switch.use(build_app(project, server), project.own_app)
        try:
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                await server.streams.close()


def expiry_of(config: ThreadTtlConfig) -> Expiry:
    default = None if config.default is None else Ttl(config.default, config.strategy)
    return Expiry(default, config.sweep_every, config.sweep_limit)


def open_storage(settings: Settings, serializer: Serializer) -> AbstractAsyncContextManager[Storage]:
    match settings.storage:
        case "sqlite":
            from threadwire.storage.sqlite import open_sqlite_storage

            return open_sqlite_storage(settings.data, serializer=serializer)
        case "memory":
            from threadwire.storage.memory import open_memory_storage

            return open_memory_storage(serializer=serializer)
        case other:
            raise ConfigError(f"There is no storage called {other!r}; choose sqlite or memory")


def build_api(engine: Engine, streams: OpenStreams, settings: Settings, http: HttpSection) -> FastAPI:
    """The API alone: every protocol, and what the server says about itself."""
    api = FastAPI(
        title="Threadwire",
        description="LangGraph agents over one durable log per thread.",
        version=version("threadwire"),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json" if http.offers("/openapi.json") else None,
    )
    problems.install(api)
    agents = Agents(engine, settings.default_agent)
    for router in (
        langgraph_routes(engine, streams),
        system_routes(engine),
        metrics_route(engine, streams),
        api_page_route(api),
        ag_ui_routes(engine, streams, manners(settings, unknown_thread="error")),
        copilotkit_routes(engine, streams, agents, manners(settings, unknown_thread="empty")),
    ):
        # Not `include_router`: FastAPI would look through each router twice, once to find and once to call.
        api.router.routes += _offered(router, http)
    api.router.routes += _headers_alone(api.router.routes)
    api.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    if http.configurable_headers is not None:
        api.add_middleware(ConfigurableHeaders, chosen=http.configurable_headers.chosen)
    return api


def _offered(router: APIRouter, http: HttpSection) -> list[BaseRoute]:
    """What the project has not switched off."""
    return [route for route in router.routes if http.offers(getattr(route, "path", ""))]


def _headers_alone(routes: list[BaseRoute]) -> list[BaseRoute]:
    """HEAD wherever there is GET, but for CopilotKit's, which has words of its own for methods it does not know. Routes
    of their own, at the end: nobody else's way to his route gets longer, and the API is not described twice."""
    found: list[BaseRoute] = []
    for route in routes:
        if isinstance(route, APIRoute) and route.methods == {"GET"} and not route.path.startswith(COPILOTKIT):
            twin = copy(route)
            twin.methods, twin.include_in_schema = {"HEAD"}, False
            found.append(twin)
    return found


def build_app(project: Project, server: Server) -> ASGIApp:
    """The API with what the project puts around it, behind the checks of where a request comes from."""
    settings, http = server.settings, project.config.http
    api = build_api(server.engine, server.streams, settings, http)
    app: ASGIApp = api if project.own_app is None else with_own_routes(project.own_app, api)
    if http.mount_prefix:
        app = below(http.mount_prefix, app, api)
    if settings.log_level == "debug":
        app = RequestLog(app, _logged(http))
    origins = origin_pattern(settings, http, dev=server.dev)
    return TrustedSource(
        _with_cors(app, http, origins),
        hosts=LOOPBACK_HOSTS | settings.allowed_hosts,
        origins=re.compile(origins),
    )


def _with_cors(app: ASGIApp, http: HttpSection, origins: str) -> ASGIApp:
    cors = http.cors
    if cors is None:
        return CorsWhenAsked(app, origins, EXPOSED_HEADERS)
    return CorsWhenAsked(
        app,
        origins,
        (*EXPOSED_HEADERS, *cors.expose_headers),
        methods=cors.allow_methods,
        headers=cors.allow_headers,
        credentials=cors.allow_credentials,
        max_age=cors.max_age,
    )


def manners(settings: Settings, *, unknown_thread: UnknownThread) -> Manners:
    """As they are set; what an unknown thread is, is up to each protocol unless that is set too."""
    chosen = settings.unknown_thread
    return Manners(settings.when_busy, unknown_thread if chosen == "usual" else chosen)


def origin_pattern(settings: Settings, http: HttpSection, *, dev: bool) -> str:
    """Which pages may call us: the configured ones, and in development any on loopback."""
    named = {*settings.allowed_origins, *(http.cors.allow_origins if http.cors else ())}
    allowed = [".*" if origin == "*" else re.escape(origin) for origin in sorted(named)]
    if http.cors and http.cors.allow_origin_regex:
        allowed.append(http.cors.allow_origin_regex)
    if dev:
        allowed.append(LOOPBACK_ORIGIN)
    return "|".join(f"(?:{each})" for each in allowed) or r"(?!)"


def _logged(http: HttpSection) -> Chosen:
    """None, unless the project says which; and all but the excluded, if it only says those."""
    choice = http.logging_headers or HeaderChoice()
    if http.logging_headers and choice.includes is None:
        choice = choice.model_copy(update={"includes": ("*",)})
    return choice.chosen
