"""The composition root: the only module that wires the parts together and names a driver."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from dataclasses import dataclass
from importlib.metadata import version

import anyio
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from threadwire.core.records import QueueLimits, Ttl
from threadwire.engine.expiry import Expiry
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.errors import ConfigError
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.http_config import HeaderChoice, HttpConfig
from threadwire.graphs.persistence_config import ThreadTtlConfig
from threadwire.graphs.serializer import Serializer
from threadwire.http import problems
from threadwire.http.body_limit import BodyLimit
from threadwire.http.cors import ConditionalCors
from threadwire.http.headers import ConfigurableHeaders, HeaderFilter, RequestLog
from threadwire.http.loopback import Loopback
from threadwire.http.protocol import ProtocolContext
from threadwire.http.streaming import OpenStreams
from threadwire.http.trusted_source import LOOPBACK_HOSTS, LOOPBACK_ORIGIN, TrustedSource
from threadwire.http.webhooks import RunWebhooks, WebhookBody, WebhookClient
from threadwire.server.api_page import api_description_routes
from threadwire.server.combined_settings import check_settings
from threadwire.server.composition import mount_under, with_user_routes
from threadwire.server.health import SYSTEM, system_routes
from threadwire.server.metrics import metrics_route
from threadwire.server.project import Project, import_project, read_project
from threadwire.server.protocols import PROTOCOLS
from threadwire.server.sdk_clients import connected_clients, prepare_clients
from threadwire.server.swappable_app import Apps, SwappableApp, open_swappable_app
from threadwire.settings import Settings
from threadwire.storage.abc import Storage

EXPOSED_HEADERS = ("Location", "Content-Location", "X-Pagination-Total", "X-Pagination-Next", "Retry-After")


@dataclass
class Server:
    """A running server. `app` is the application for a web server; it stays the same when the project is reloaded."""

    settings: Settings
    dev: bool
    project: Project
    engine: Engine
    streams: OpenStreams
    app: SwappableApp
    webhooks: RunWebhooks

    async def use(self, project: Project) -> None:
        """Switch to this project: its routes serve new requests, its graphs new runs and reads."""
        await self.app.use(build_app(project, self), project.user_app)
        await self.engine.use_graphs(project.registry)
        self.webhooks.use(project.webhooks, disabled=project.config.http.disable_webhooks)
        self.project = project


@asynccontextmanager
async def open_server(settings: Settings, *, dev: bool = False) -> AsyncIterator[Server]:
    """Run an engine and the application on top of it until the block ends. `settings` is an instance of
    `combined_settings()`."""
    prepare_clients()
    project = await import_project(read_project(settings))
    calls = WebhookClient(project.webhooks)
    webhooks = RunWebhooks(calls, _webhook_body(), disabled=project.config.http.disable_webhooks)
    async with (
        calls.open(),
        open_storage(settings, project.serializer) as storage,
        open_engine(
            storage,
            project.registry,
            project.persistence,
            capacity=settings.concurrency,
            limits=QueueLimits(settings.max_pending_runs_per_thread, settings.max_pending_runs),
            drain=settings.drain_seconds,
            keep_temporary=settings.keep_temporary_seconds,
            webhooks=webhooks,
            expiry=expiry_of(project.config.checkpointer.ttl),
            messages=ErrorMessages(frozenset({"*"}) if dev else settings.shown_errors),
        ) as engine,
        open_swappable_app() as switch,
    ):
        server = Server(settings, dev, project, engine, OpenStreams(), switch, webhooks)
        await switch.use(build_app(project, server), project.user_app)
        try:
            with connected_clients(Loopback(switch.inner, asyncio.get_running_loop())):
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
            raise ConfigError(f"Invalid value for storage: {other!r}. Use sqlite or memory.")


def _webhook_body() -> WebhookBody:
    (body,) = [each.webhook_body for each in PROTOCOLS if each.webhook_body is not None]
    return body


def build_api(engine: Engine, streams: OpenStreams, settings: Settings, http: HttpConfig) -> FastAPI:
    """Build the API without the project's own routes: every protocol, and the system routes."""
    api = FastAPI(
        title="Threadwire",
        description="LangGraph agents over one durable log per thread.",
        version=version("threadwire"),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # `api_description_routes` serves it, and encodes it once
        # Checking whether OpenTelemetry is configured takes 7 % of a small request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        openapi_tags=[tag._asdict() for protocol in PROTOCOLS for tag in protocol.tags] + [SYSTEM._asdict()],
    )
    problems.install(api)
    context = ProtocolContext(engine, streams, settings, http)
    served = [(protocol.router(context), protocol.head_routes) for protocol in PROTOCOLS]
    system = (system_routes(engine), metrics_route(engine, streams), api_description_routes(api))
    _add_routes(api, [*served, *((router, True) for router in system)], http)
    api.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    if http.configurable_headers is not None:
        api.add_middleware(ConfigurableHeaders, chosen=http.configurable_headers.chosen)
    return api


def _add_routes(api: FastAPI, routers: Iterable[tuple[APIRouter, bool]], http: HttpConfig) -> None:
    """Add the routes of these routers, and HEAD routes for those that want them."""
    head_routes: list[BaseRoute] = []
    for router, wants_head in routers:
        routes = _enabled_routes(router, http)
        # Not `include_router`: FastAPI would search each router twice, once to match and once to call.
        api.router.routes += routes
        head_routes += _head_routes(routes) if wants_head else []
    api.router.routes += head_routes


def _enabled_routes(router: APIRouter, http: HttpConfig) -> list[BaseRoute]:
    """Return the routes that the project has not disabled."""
    return [route for route in router.routes if http.serves(getattr(route, "path", ""))]


def _head_routes(routes: list[BaseRoute]) -> list[BaseRoute]:
    """Return a HEAD route for each GET route. They are separate routes, appended last, so that matching stays fast for
    other requests and OpenAPI lists each path once."""
    head_routes: list[BaseRoute] = []
    for route in routes:
        if isinstance(route, APIRoute) and route.methods == {"GET"}:
            head = copy(route)
            head.methods, head.include_in_schema = {"HEAD"}, False
            head_routes.append(head)
    return head_routes


def build_app(project: Project, server: Server) -> Apps:
    """Build the API with the project's own routes, prefix and CORS, behind the checks of Host and Origin; and the same
    routes without these for requests from inside the process. Raise `ConfigError` if the settings are invalid for the
    project."""
    settings, http = server.settings, project.config.http
    check_settings(settings, project.registry.ids())
    api = build_api(server.engine, server.streams, settings, http)
    app: ASGIApp = api if project.user_app is None else with_user_routes(project.user_app, api)
    inner = app
    if http.mount_prefix:
        app = mount_under(http.mount_prefix, app, api)
    if settings.log_level == "debug":
        app = RequestLog(app, _logged_headers(http))
    origins = origin_pattern(settings, http, dev=server.dev)
    public = TrustedSource(
        _with_cors(app, http, origins),
        hosts=LOOPBACK_HOSTS | settings.allowed_hosts,
        origins=re.compile(origins),
    )
    return Apps(public, inner)


def _with_cors(app: ASGIApp, http: HttpConfig, origins: str) -> ASGIApp:
    cors = http.cors
    if cors is None:
        return ConditionalCors(app, origins, EXPOSED_HEADERS)
    return ConditionalCors(
        app,
        origins,
        (*EXPOSED_HEADERS, *cors.expose_headers),
        methods=cors.allow_methods,
        headers=cors.allow_headers,
        credentials=cors.allow_credentials,
        max_age=cors.max_age,
    )


def origin_pattern(settings: Settings, http: HttpConfig, *, dev: bool) -> str:
    """Return a pattern of the allowed origins: the configured ones and, in development, any on loopback."""
    configured = {*settings.allowed_origins, *(http.cors.allow_origins if http.cors else ())}
    allowed = [".*" if origin == "*" else re.escape(origin) for origin in sorted(configured)]
    if http.cors and http.cors.allow_origin_regex:
        allowed.append(http.cors.allow_origin_regex)
    if dev:
        allowed.append(LOOPBACK_ORIGIN)
    return "|".join(f"(?:{each})" for each in allowed) or r"(?!)"


def _logged_headers(http: HttpConfig) -> HeaderFilter:
    """Select the headers to log: none by default, and all except the excluded ones if the project only excludes."""
    choice = http.logging_headers or HeaderChoice()
    if http.logging_headers and choice.includes is None:
        choice = choice.model_copy(update={"includes": ("*",)})
    return choice.chosen
