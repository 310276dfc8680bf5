"""The composition root: the only module that wires the parts together. `storages` names the drivers."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
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
from threadwire.engine.worker_pool import WorkerPool
from threadwire.errors import ConfigError
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.http_config import HeaderChoice, HttpConfig
from threadwire.graphs.persistence_config import ThreadTtlConfig
from threadwire.graphs.user_loop import UserLoop
from threadwire.http import problems
from threadwire.http.body_limit import BodyLimit
from threadwire.http.connection_limit import ConnectionLimit
from threadwire.http.cors import ConditionalCors
from threadwire.http.direct_routes import DirectRoutes
from threadwire.http.headers import ConfigurableHeaders, HeaderFilter, RequestLog
from threadwire.http.loopback import Loopback
from threadwire.http.protocol import ProtocolContext
from threadwire.http.remote_loopback import LoopbackService
from threadwire.http.streaming import OpenStreams
from threadwire.http.trusted_source import LOOPBACK_HOSTS, LOOPBACK_ORIGIN, TrustedSource
from threadwire.http.webhooks import RunWebhooks, WebhookBody, WebhookClient
from threadwire.ipc.channel import Channel
from threadwire.server.api_page import api_description_routes
from threadwire.server.auth import ServerAuth, describe_security
from threadwire.server.combined_settings import check_settings
from threadwire.server.composition import authenticate_routes, mount_under, with_user_routes
from threadwire.server.health import SYSTEM, system_routes
from threadwire.server.metrics import metrics_route
from threadwire.server.project import Project, import_project, read_project
from threadwire.server.protocols import PROTOCOLS
from threadwire.server.sdk_clients import connected_clients
from threadwire.server.storages import open_storage_and_clock, serve_storage
from threadwire.server.swappable_app import Apps, SwappableApp, open_swappable_app
from threadwire.server.tickets import ticket_route
from threadwire.server.truncation import truncation_route
from threadwire.server.waiting_connections import WaitingConnections
from threadwire.server.worker_processes import Launch, Service, WorkerProcesses, automatic_count
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
    auth: ServerAuth
    connections: WaitingConnections | None = None

    async def use(self, project: Project) -> None:
        """Switch to this project: its routes serve new requests, its graphs new runs and reads."""
        self.auth.use(project.config, project.auth)
        await self.app.use(build_app(project, self), project.user_app)
        await self.engine.use_graphs(project.registry)
        self.webhooks.use(project.webhooks, disabled=project.config.http.disable_webhooks)
        self.project = project


@asynccontextmanager
async def open_server(
    settings: Settings,
    *,
    dev: bool = False,
    connections: WaitingConnections | None = None,
    worker_command: Sequence[str] | None = None,
) -> AsyncIterator[Server]:
    """Run an engine and the application on top of it until the block ends. `settings` is an instance of
    `combined_settings()`. `connections` are those of the web server, if it is ours. `worker_command` starts a worker
    process; without it, runs are executed in this process."""
    project = await import_project(read_project(settings))
    workers = 0 if worker_command is None else worker_count(settings, project)
    calls = WebhookClient(project.webhooks)
    webhooks = RunWebhooks(calls, _webhook_body(), disabled=project.config.http.disable_webhooks)
    async with (
        calls.open(),
        open_storage_and_clock(settings, project.serializer) as (storage, clock),
        _open_auth(storage, settings, project) as auth,
        open_engine(
            storage,
            project.registry,
            project.persistence,
            capacity=0 if settings.role == "api" else settings.concurrency,
            limits=QueueLimits(settings.max_pending_runs_per_thread, settings.max_pending_runs),
            drain=settings.drain_seconds,
            keep_temporary=settings.keep_temporary_seconds,
            webhooks=webhooks,
            expiry=expiry_of(project.config.checkpointer.ttl),
            clock=clock,
            messages=ErrorMessages(frozenset({"*"}) if dev else settings.shown_errors),
            authorization=auth.authorization,
            lease_seconds=settings.lease_seconds,
            worker_processes=workers > 0,
            shares_storage=settings.is_on_postgres,
        ) as engine,
        open_swappable_app() as switch,
    ):
        server = Server(settings, dev, project, engine, OpenStreams(), switch, webhooks, auth, connections)
        await switch.use(build_app(project, server), project.user_app)
        try:
            loopback = Loopback(switch.inner, asyncio.get_running_loop())
            with connected_clients(loopback):
                async with _worker_processes(server, loopback, worker_command or (), workers):
                    yield server
        finally:
            with anyio.CancelScope(shield=True):
                await server.streams.close()


@asynccontextmanager
async def _open_auth(storage: Storage, settings: Settings, project: Project) -> AsyncIterator[ServerAuth]:
    has_keys = bool(await storage.keys.list())
    with UserLoop("auth") as loop:
        auth = ServerAuth(storage, settings, loop, has_keys=has_keys)
        auth.use(project.config, project.auth)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(auth.open_responses.check_forever)
            yield auth
            tasks.cancel_scope.cancel()


def worker_count(settings: Settings, project: Project) -> int:
    """How many worker processes execute the runs; 0 if this process does. Without a setting, they are started only for
    SQLite: with PostgreSQL, the operator decides how many processes there are. A custom checkpointer or store may
    work in only one process, so a project that has one gets worker processes only if the setting asks for them."""
    if settings.workers is None:
        return 0 if settings.storage != "sqlite" or project.persistence.is_custom else automatic_count()
    if settings.workers and settings.storage == "memory":
        raise ConfigError("Processes cannot share the memory storage: set workers to 0, or use another storage.")
    if settings.workers and settings.role == "api":
        raise ConfigError("The role api executes no runs: set workers to 0, or use another role.")
    return settings.workers


@asynccontextmanager
async def _worker_processes(
    server: Server, loopback: Loopback, command: Sequence[str], count: int
) -> AsyncIterator[None]:
    pool, storage = server.engine.worker, server.engine.storage
    if not isinstance(pool, WorkerPool):
        yield
        return

    def serve(channel: Channel) -> Service:
        LoopbackService(loopback, channel)
        return serve_storage(storage, channel)

    processes = WorkerProcesses(pool, storage, Launch(command, server.settings, count, serve))
    async with processes.running(server.settings.drain_seconds):
        yield


def expiry_of(config: ThreadTtlConfig) -> Expiry:
    default = None if config.default is None else Ttl(config.default, config.strategy)
    return Expiry(default, config.sweep_every, config.sweep_limit)


def _webhook_body() -> WebhookBody:
    (body,) = [each.webhook_body for each in PROTOCOLS if each.webhook_body is not None]
    return body


def build_api(
    engine: Engine,
    streams: OpenStreams,
    settings: Settings,
    http: HttpConfig,
    connections: WaitingConnections | None = None,
    *,
    dev: bool = False,
    auth: ServerAuth | None = None,
) -> FastAPI:
    """Build the API without the project's own routes: every protocol, and the system routes. The role
    `worker` has only the system routes."""
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
    data = None if settings.storage == "memory" else settings.data
    context = ProtocolContext(engine, streams, settings, http, data)
    protocols = PROTOCOLS if settings.role != "worker" else ()
    served = [(protocol.router(context), protocol.head_routes) for protocol in protocols]
    system = [
        system_routes(engine),
        metrics_route(engine, streams, connections),
        ticket_route(engine.storage.tickets, settings.ticket_seconds),
        api_description_routes(api),
    ]
    authentication = None if auth is None else auth.middleware()
    if dev and authentication is None:  # it deletes the data of every user
        system.append(truncation_route(engine))
    _add_routes(api, [*served, *((router, True) for router in system)], http)
    api.add_middleware(DirectRoutes, routes=api.router.routes)  # the first one added is the innermost
    api.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    if http.configurable_headers is not None:
        api.add_middleware(ConfigurableHeaders, chosen=http.configurable_headers.chosen)
    if authentication is not None:
        api.add_middleware(authentication)
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
    """Build the public application: the API with the project's own routes, prefix and CORS, behind the checks of Host
    and Origin. Also build the inner one, which has only the routes, for requests from inside the process. Raise
    `ConfigError` if the settings are invalid for the project."""
    settings, http = server.settings, project.config.http
    check_settings(settings, project.registry.ids())
    api = build_api(server.engine, server.streams, settings, http, server.connections, dev=server.dev, auth=server.auth)
    authentication = server.auth.middleware()
    if authentication is not None:
        describe_security(api, project.config.auth)
    own = project.user_app if settings.role != "worker" else None
    if own is not None and authentication is not None and http.enable_custom_route_auth:
        authenticate_routes(own, authentication, first=http.middleware_order == "auth_first")
    app: ASGIApp = api if own is None else with_user_routes(own, api)
    inner = app
    if http.mount_prefix:
        app = mount_under(http.mount_prefix, app, api)
    if settings.log_level == "debug":
        app = RequestLog(app, _logged_headers(http))
    origins = origin_pattern(settings, http, dev=server.dev)
    public = TrustedSource(
        _with_cors(ConnectionLimit(app), http, origins),
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
    """Select the headers to log. By default there are none. If the project lists only exclusions, all others are
    logged."""
    choice = http.logging_headers or HeaderChoice()
    if http.logging_headers and choice.includes is None:
        choice = choice.model_copy(update={"includes": ("*",)})
    return choice.chosen
