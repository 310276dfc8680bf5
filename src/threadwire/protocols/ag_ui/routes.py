"""AG-UI over HTTP: run, connect, stop, follow."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query
from starlette.responses import Response

from threadwire.core.encoder import Message
from threadwire.core.entries import START, parse_cursor
from threadwire.core.ids import Seq, thread_id_from_name
from threadwire.core.records import Assistant
from threadwire.engine.lifecycle import Engine
from threadwire.errors import AgentNotFound, Invalid, ThreadwireError, UnknownInterrupt
from threadwire.http.json_route import JsonRoute
from threadwire.http.problems import JsonResponse, error_responses, status_of
from threadwire.http.sse import UNNAMED_HEARTBEAT, unnamed_events
from threadwire.http.streaming import STREAM_HEADERS, OpenStreams, event_stream
from threadwire.protocols.ag_ui.agent_runs import ClientPolicy, find_agent, find_thread, start, stop, thread_to_connect
from threadwire.protocols.ag_ui.capabilities import agent_json
from threadwire.protocols.ag_ui.connect import Vocabulary, rejection
from threadwire.protocols.ag_ui.decode import ConnectInput, RunInput, StopInput
from threadwire.protocols.ag_ui.encode import Options, RunEncoder
from threadwire.protocols.ag_ui.raw_events import RawChoice, parse_choice
from threadwire.protocols.ag_ui.wire import encoded, run_error

RawQuery = Annotated[list[str] | None, Query(alias="rawEvents")]
Cursor = Annotated[str | None, Header(alias="last-event-id")]


def ag_ui_routes(engine: Engine, streams: OpenStreams, client_policy: ClientPolicy) -> APIRouter:
    router = APIRouter(prefix="/ag-ui", route_class=JsonRoute, default_response_class=JsonResponse, tags=["ag-ui"])

    @router.get("")
    async def list_agents() -> JsonResponse:
        return JsonResponse({"agents": [await agent_json(engine, graph_id) for graph_id in engine.registry.ids()]})

    @router.get("/{agent}")
    async def get_agent(agent: str) -> JsonResponse:
        return JsonResponse(await agent_json(engine, agent))

    @router.post("/{agent}", responses=error_responses(409, 429))
    async def run_agent(agent: str, body: Annotated[RunInput, Body()]) -> Response:
        return await run_stream(engine, streams, await find_agent(engine, agent), body, client_policy)

    @router.post("/{agent}/connect")
    async def connect_agent(
        agent: str, body: Annotated[ConnectInput, Body()], last_event_id: Cursor = None
    ) -> Response:
        try:
            assistant = await find_agent(engine, agent)
        except AgentNotFound as error:
            return _failed(error)
        return await connect_stream(engine, streams, assistant, body, last_event_id, client_policy)

    @router.post("/{agent}/stop/{thread_id}")
    async def stop_agent(agent: str, thread_id: str, body: Annotated[StopInput | None, Body()] = None) -> JsonResponse:
        await find_agent(engine, agent)
        run_id = body.run_id if body is not None else None
        stopped = await stop(engine, thread_id_from_name(thread_id), thread_id, run_id, client_policy)
        return JsonResponse(stopped_json(stopped.run is not None, stopped.reason))

    @router.get("/{agent}/threads/{thread_id}/events", responses=error_responses(400))
    async def follow_thread(
        agent: str, thread_id: str, last_event_id: Cursor = None, raw_events: RawQuery = None
    ) -> Response:
        assistant = await find_agent(engine, agent)
        thread = await find_thread(engine, thread_id)
        options = _options(engine, assistant, thread_id, _parse_raw(raw_events))
        cursor = None if last_event_id is None else parse_cursor(last_event_id)
        follower = await engine.joins.forever(thread.thread_id, Vocabulary(options), cursor)
        return event_stream(follower, streams, heartbeat=UNNAMED_HEARTBEAT)

    return router


def _options(engine: Engine, agent: Assistant, thread_id: str, raw: RawChoice | None) -> Options:
    return Options(
        thread_id,
        raw=engine.registry.raw_events(agent.graph_id) if raw is None else raw,
        interrupt_outcome=engine.registry.interrupt_outcome(agent.graph_id),
    )


def _parse_raw(values: list[str] | None) -> RawChoice | None:
    if values in (["true"], ["false"]):
        return values == ["true"]
    try:
        return parse_choice(values)
    except ValueError as error:
        raise Invalid(str(error)) from None


async def run_stream(
    engine: Engine, streams: OpenStreams, agent: Assistant, run_input: RunInput, client_policy: ClientPolicy
) -> Response:
    options = replace(
        _options(engine, agent, run_input.thread_id, run_input.raw), run_id=run_input.run_id, modern=run_input.modern
    )
    try:
        run, plan = await start(engine, agent, run_input, client_policy, raw=options.raw)
    except UnknownInterrupt as error:
        reason = run_error(error.message, "UNKNOWN_INTERRUPT")
        return _sent(await rejection(engine, run_input.thread, options, reason))
    options = replace(options, out_of_order=plan.out_of_order)
    follower = engine.runs.follow(run, options, partial(RunEncoder, options), unnamed_events, Seq(run.queued_seq - 1))
    return event_stream(follower, streams, heartbeat=UNNAMED_HEARTBEAT)


async def connect_stream(
    engine: Engine,
    streams: OpenStreams,
    agent: Assistant,
    connect_input: ConnectInput,
    last_event_id: str | None,
    client_policy: ClientPolicy,
) -> Response:
    """Connect to a thread. Errors are sent in the stream, where clients expect them, with their HTTP status as code."""
    options = replace(
        _options(engine, agent, connect_input.thread_id or "", connect_input.raw), modern=connect_input.modern
    )
    try:
        thread_id = await thread_to_connect(engine, connect_input.thread_id, client_policy)
        cursor = _cursor(connect_input, last_event_id)
        joined = await engine.joins.until_idle(thread_id, Vocabulary(options), cursor)
    except ThreadwireError as error:
        return _failed(error)
    if joined.rest is None:
        return Response(b"".join(joined.first), headers=STREAM_HEADERS)
    return event_stream(joined.rest, streams, first=joined.first, heartbeat=UNNAMED_HEARTBEAT)


def _cursor(connect_input: ConnectInput, last_event_id: str | None) -> Seq | None:
    """The cursor to resume from. None if it is missing or invalid: the client then receives everything."""
    value = connect_input.last_seen_event_id if last_event_id is None else last_event_id
    if value is None or not str(value).isdigit():
        return None
    cursor = parse_cursor(str(value)[:18])
    return None if cursor == START else cursor


def _failed(error: ThreadwireError) -> Response:
    return _sent(encoded([run_error(error.message, str(status_of(error)))]))


def _sent(messages: Sequence[Message]) -> Response:
    """A stream that ends after these messages."""
    return Response(unnamed_events(messages, None), headers=STREAM_HEADERS)


def stopped_json(stopped: bool, reason: str | None) -> dict[str, Any]:
    if not stopped:
        return {"stopped": False, "message": reason}
    interrupt = run_error("Run stopped by user", "STOPPED")
    return {"stopped": True, "interrupt": interrupt}
