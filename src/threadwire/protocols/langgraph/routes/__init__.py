"""The LangGraph API over HTTP: a thin layer between requests and the engine."""

from fastapi import APIRouter

from threadwire.engine.lifecycle import Engine
from threadwire.http.json_route import JsonRoute
from threadwire.http.problems import JsonResponse
from threadwire.http.streaming import OpenStreams
from threadwire.protocols.langgraph.routes.assistants import assistant_routes
from threadwire.protocols.langgraph.routes.crons import cron_routes
from threadwire.protocols.langgraph.routes.runs import run_routes
from threadwire.protocols.langgraph.routes.state import state_routes
from threadwire.protocols.langgraph.routes.stateless_runs import stateless_run_routes
from threadwire.protocols.langgraph.routes.store import store_routes
from threadwire.protocols.langgraph.routes.thread_socket import thread_socket_routes
from threadwire.protocols.langgraph.routes.thread_wire import thread_wire_routes
from threadwire.protocols.langgraph.routes.threads import thread_routes
from threadwire.protocols.langgraph.routes.ui import ui_routes


def langgraph_routes(engine: Engine, streams: OpenStreams) -> APIRouter:
    router = APIRouter(route_class=JsonRoute, default_response_class=JsonResponse)
    run_routes(router, engine, streams)  # first, because routes are matched in order
    assistant_routes(router, engine)
    thread_routes(router, engine, streams)
    thread_wire_routes(router, engine, streams)
    thread_socket_routes(router, engine, streams)
    state_routes(router, engine)
    cron_routes(router, engine)
    stateless_run_routes(router, engine, streams)
    store_routes(router, engine)
    ui_routes(router, engine)
    return router
