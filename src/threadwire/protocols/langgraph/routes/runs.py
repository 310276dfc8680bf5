"""Runs of a thread over HTTP: starting, following and cancelling them."""

from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from threadwire.core.ids import parse_run_id, parse_thread_id
from threadwire.core.records import Run
from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import ACCEPTED, JsonResponse, error_responses
from threadwire.http.streaming import OpenStreams
from threadwire.http.trusted_source import reject_foreign
from threadwire.protocols.langgraph.decode.body import MAX_PAGE
from threadwire.protocols.langgraph.decode.idempotency import idempotent_request
from threadwire.protocols.langgraph.decode.query import decode_query_list
from threadwire.protocols.langgraph.decode.runs import RunBody
from threadwire.protocols.langgraph.routes.pagination import selected
from threadwire.protocols.langgraph.routes.run_responses import RunResponses
from threadwire.protocols.langgraph.wire import RUN_FIELDS, run_json, run_path

Cursor = Annotated[str | None, Header(alias="last-event-id")]
IdempotencyKey = Annotated[str | None, Header(max_length=255)]
RunStatusName = Literal["pending", "running", "error", "success", "timeout", "interrupted"]
Action = Literal["interrupt", "rollback"]
Modes = Annotated[list[str] | None, Query()]


def _cancel_on_disconnect(request: Request, cancel_on_disconnect: bool = False) -> bool:
    if cancel_on_disconnect:
        reject_foreign(request)
    return cancel_on_disconnect


CancelOnDisconnect = Annotated[bool, Depends(_cancel_on_disconnect)]
"""Turns a GET into a request that can cancel a run."""


def run_routes(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    run_responses = RunResponses(engine, streams)
    _start_runs(router, engine, run_responses)
    _follow_runs(router, engine, run_responses)


def _start_runs(router: APIRouter, engine: Engine, run_responses: RunResponses) -> None:
    async def start(operation: str, thread: str, body: RunBody, key: str | None) -> Run:
        thread_id = parse_thread_id(thread)
        idempotency = idempotent_request(key, operation, [body], thread_id)
        follows = operation != "create"
        run = await engine.runs.start(body.start(thread_id, idempotency, defer_sync=follows))
        if follows:
            await engine.runs.require_readable(run)
        return run

    @router.post("/threads/{thread_id}/runs", tags=["runs"], responses=error_responses(400, 409, 429))
    async def create_run(
        thread_id: str, body: Annotated[RunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> JsonResponse:
        run = await start("create", thread_id, body, idempotency_key)
        return JsonResponse(run_json(run), headers={"content-location": run_path(run)})

    @router.post("/threads/{thread_id}/runs/stream", tags=["runs"], responses=error_responses(400, 409, 429))
    async def stream_run(
        thread_id: str, body: Annotated[RunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> Response:
        run = await start("stream", thread_id, body, idempotency_key)
        return run_responses.stream(run, run_path(run), body)

    @router.post("/threads/{thread_id}/runs/wait", tags=["runs"], responses=error_responses(400, 409, 429))
    async def wait_for_run(
        thread_id: str, body: Annotated[RunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> Response:
        run = await start("wait", thread_id, body, idempotency_key)
        return run_responses.outcome(run, run_path(run), cancel_on_disconnect=body.on_disconnect == "cancel")


def _follow_runs(router: APIRouter, engine: Engine, run_responses: RunResponses) -> None:
    @router.get("/threads/{thread_id}/runs", tags=["runs"])
    async def list_runs(
        thread_id: str,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 10,
        offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
        status: RunStatusName | None = None,
        select: Annotated[list[str] | None, Query()] = None,
    ) -> JsonResponse:
        fields = decode_query_list(select or [], "select", RUN_FIELDS) or None
        runs = await engine.runs.list(parse_thread_id(thread_id), status=status, limit=limit, offset=offset)
        return JsonResponse([selected(run_json(run), fields) for run in runs])

    @router.get("/threads/{thread_id}/runs/{run_id}", tags=["runs"])
    async def get_run(thread_id: str, run_id: str) -> JsonResponse:
        return JsonResponse(run_json(await engine.runs.get(parse_thread_id(thread_id), parse_run_id(run_id))))

    @router.delete("/threads/{thread_id}/runs/{run_id}", tags=["runs"], status_code=204)
    async def delete_run(thread_id: str, run_id: str) -> Response:
        await engine.runs.delete(parse_thread_id(thread_id), parse_run_id(run_id))
        return Response(status_code=204)

    @router.get("/threads/{thread_id}/runs/{run_id}/join", tags=["runs"])
    async def join_run(thread_id: str, run_id: str, cancel_on_disconnect: CancelOnDisconnect) -> Response:
        run = await engine.runs.get(parse_thread_id(thread_id), parse_run_id(run_id))
        return run_responses.outcome(run, run_path(run), cancel_on_disconnect=cancel_on_disconnect)

    @router.get("/threads/{thread_id}/runs/{run_id}/stream", tags=["runs"], responses=error_responses(400))
    async def join_stream(
        thread_id: str,
        run_id: str,
        cancel_on_disconnect: CancelOnDisconnect,
        stream_mode: Modes = None,
        last_event_id: Cursor = None,
    ) -> Response:
        run = await engine.runs.get(parse_thread_id(thread_id), parse_run_id(run_id))
        return await run_responses.joined_stream(
            run, run_path(run), stream_mode, last_event_id, cancel_on_disconnect=cancel_on_disconnect
        )

    @router.post("/threads/{thread_id}/runs/{run_id}/cancel", tags=["runs"], responses=ACCEPTED)
    async def cancel_run(thread_id: str, run_id: str, wait: bool = False, action: Action = "interrupt") -> Response:
        thread, run = parse_thread_id(thread_id), parse_run_id(run_id)
        await engine.runs.cancel(thread, run, action, wait=wait)
        if wait:
            path = f"/threads/{thread}/runs/{run}"
            return JsonResponse({}, headers={"location": f"{path}/join", "content-location": path})
        return Response(status_code=202)
