"""The protocol of CopilotKit's runtime over HTTP, without that runtime. Both its transports share one path."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Request
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.responses import Response, StreamingResponse

from threadwire.core.ids import thread_id_from_name
from threadwire.engine.lifecycle import Engine
from threadwire.errors import Invalid
from threadwire.http.json_body import parse_json
from threadwire.http.problems import JsonResponse
from threadwire.http.streaming import OpenStreams
from threadwire.protocols.ag_ui.agent_runs import ClientPolicy, Stopped, find_thread, stop
from threadwire.protocols.ag_ui.decode import ConnectInput, RunInput, StopInput
from threadwire.protocols.ag_ui.encode import Options
from threadwire.protocols.ag_ui.routes import connect_stream, run_stream, stopped_json
from threadwire.protocols.copilotkit.agents import Agents
from threadwire.protocols.copilotkit.decode import MAX_PAGE, AgentScope, ThreadUpdate
from threadwire.protocols.copilotkit.info import runtime_info
from threadwire.protocols.copilotkit.paths import fallback_response
from threadwire.protocols.copilotkit.problems import RuntimeRoute, runtime_error_responses
from threadwire.protocols.copilotkit.single_route import dispatch_envelope
from threadwire.protocols.copilotkit.suggestions import is_suggestion, suggest, temporary_thread
from threadwire.protocols.copilotkit.thread_contents import events_of, messages_of, state_of
from threadwire.protocols.copilotkit.threads import archive_thread, delete_thread, list_threads, update_thread

PREFIX = "/copilotkit"

_NO_REALTIME = "This server does not push thread lists: `threadEndpoints.realtimeMetadata` is false."
_NOT_CLEARED = "Threads are persistent and belong to other clients too: delete them one by one."
_NO_TRANSCRIPTION = "This server does not transcribe audio: `audioFileTranscriptionEnabled` is false."
_ANY: list[str] = []
"""In Starlette, a route without methods matches all of them."""


def copilotkit_routes(engine: Engine, streams: OpenStreams, agents: Agents, client_policy: ClientPolicy) -> APIRouter:
    router = APIRouter(
        prefix=PREFIX, route_class=RuntimeRoute, default_response_class=JsonResponse, tags=["copilotkit"]
    )
    _agent_routes(router, engine, streams, agents, client_policy)
    _thread_routes(router, engine, agents)

    @router.post("", responses=runtime_error_responses(404, 415))
    async def single_route(request: Request) -> Response:
        return await dispatch_envelope(request)

    @router.post("/transcribe", responses=runtime_error_responses(503))
    async def transcribe() -> JsonResponse:
        return JsonResponse({"error": "service_not_configured", "message": _NO_TRANSCRIPTION, "retryable": False}, 503)

    known = [route for route in router.routes if isinstance(route, APIRoute)]

    async def fallback(request: Request) -> Response:
        return fallback_response(request, known)

    for path in ("", "/", "/{rest:anything}"):
        router.add_route(PREFIX + path, fallback, methods=_ANY, include_in_schema=False)
    return router


def _agent_routes(
    router: APIRouter, engine: Engine, streams: OpenStreams, agents: Agents, client_policy: ClientPolicy
) -> None:
    @router.get("/info")
    async def get_info() -> JsonResponse:
        return JsonResponse(await runtime_info(agents))

    @router.post("/agent/{agent}/run")
    async def run_agent(agent: str, body: Annotated[RunInput, Body()]) -> Response:
        assistant = await agents.find(agent)
        if is_suggestion(body):
            return await suggest(engine, streams, assistant, body, client_policy)
        return await run_stream(engine, streams, assistant, body, client_policy)

    @router.post("/agent/{agent}/suggest")
    async def suggest_next(agent: str, body: Annotated[RunInput, Body()]) -> Response:
        return await suggest(engine, streams, await agents.find(agent), body, client_policy)

    @router.post("/agent/{agent}/connect")
    async def connect_agent(
        agent: str,
        body: Annotated[ConnectInput, Body()],
        last_event_id: Annotated[str | None, Header(alias="last-event-id")] = None,
    ) -> Response:
        assistant = await agents.find(agent)
        return await connect_stream(engine, streams, assistant, body, last_event_id, client_policy)

    @router.post("/agent/{agent}/stop/{thread_id:anything}")
    async def stop_agent(agent: str, thread_id: str, request: Request) -> JsonResponse:
        scope = _stop_scope(await request.body())
        if isinstance(scope, JsonResponse):
            return scope
        await agents.find(agent)
        stopped = await _stop(engine, thread_id, scope.run_id, client_policy)
        return JsonResponse(stopped_json(stopped.run is not None, stopped.reason))


def _thread_routes(router: APIRouter, engine: Engine, agents: Agents) -> None:
    @router.get("/threads", responses=runtime_error_responses(404))
    async def list_of_threads(
        agent_id: Annotated[str | None, Query(alias="agentId")] = None,
        include_archived: Annotated[bool, Query(alias="includeArchived")] = False,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
        cursor: str | None = None,
    ) -> JsonResponse:
        page = await list_threads(
            engine, agents, agent_id or None, archived=include_archived, limit=limit, cursor=cursor or None
        )
        return JsonResponse(page)

    @router.post("/threads/subscribe", responses=runtime_error_responses(422))
    async def subscribe_to_threads() -> JsonResponse:
        return JsonResponse({"error": _NO_REALTIME}, 422)

    @router.post("/threads/clear", responses=runtime_error_responses(422))
    async def clear_threads() -> JsonResponse:
        return JsonResponse({"error": _NOT_CLEARED}, 422)

    @router.post("/threads/{thread_id:anything}/archive")
    async def archive(thread_id: str, body: Annotated[AgentScope, Body()]) -> JsonResponse:
        return JsonResponse(await archive_thread(engine, agents, thread_id, body.agent_id))

    @router.patch("/threads/{thread_id:anything}")
    async def update(thread_id: str, body: Annotated[ThreadUpdate, Body()]) -> JsonResponse:
        return JsonResponse(await update_thread(engine, agents, thread_id.rstrip("/"), body))

    @router.delete("/threads/{thread_id:anything}")
    async def delete(thread_id: str, body: Annotated[AgentScope, Body()]) -> JsonResponse:
        return JsonResponse(await delete_thread(engine, agents, thread_id.rstrip("/"), body.agent_id))

    @router.get("/threads/{thread_id:anything}/messages")
    async def get_messages(thread_id: str) -> JsonResponse:
        thread = await find_thread(engine, thread_id)
        return JsonResponse({"messages": await messages_of(engine, thread, Options(thread_id))})

    @router.get("/threads/{thread_id:anything}/events")
    async def get_events(thread_id: str) -> Response:
        thread = await find_thread(engine, thread_id)
        return StreamingResponse(events_of(engine, thread, Options(thread_id)), media_type="application/json")

    @router.get("/threads/{thread_id:anything}/state")
    async def get_state(thread_id: str) -> JsonResponse:
        thread = await find_thread(engine, thread_id)
        return JsonResponse({"state": await state_of(engine, thread, Options(thread_id))})


def _stop_scope(body: bytes) -> StopInput | JsonResponse:
    """The run to stop. An unknown key is an error: a misspelt `runId` must not stop any other active run."""
    try:
        parsed: Any = parse_json(body) if body.strip() else {}
        scope = StopInput.model_validate(parsed)
    except (Invalid, ValidationError):
        return JsonResponse({"error": "Invalid stop request"}, 400)
    if "run_id" in scope.model_fields_set and not (scope.run_id or "").strip():
        return JsonResponse({"error": "Invalid runId"}, 400)
    return scope


async def _stop(engine: Engine, thread: str, run_id: str | None, client_policy: ClientPolicy) -> Stopped:
    """Stop the active run of a thread, or a suggestion that was requested with the thread's id."""
    stopped = await stop(engine, thread_id_from_name(thread), thread, run_id, client_policy)
    if stopped.run is None:
        suggestion = await stop(engine, temporary_thread(thread), thread, run_id, client_policy)
        return suggestion if suggestion.run is not None else stopped
    return stopped
