"""Stateless runs over HTTP, and runs that are identified by their id alone."""

from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import Field
from starlette.responses import Response

from threadwire.core.ids import parse_run_id
from threadwire.core.records import Run
from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import ACCEPTED, JsonResponse, error_responses
from threadwire.http.streaming import OpenStreams
from threadwire.protocols.langgraph.decode.body import MAX_PAGE
from threadwire.protocols.langgraph.decode.idempotency import idempotent_request
from threadwire.protocols.langgraph.decode.runs import BatchedRunBody, CancelBody, StatelessRunBody
from threadwire.protocols.langgraph.routes.run_responses import RunResponses
from threadwire.protocols.langgraph.routes.runs import Action, CancelOnDisconnect, Cursor, IdempotencyKey, Modes
from threadwire.protocols.langgraph.wire import run_json, run_path, short_run_path


def stateless_run_routes(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    run_responses = RunResponses(engine, streams)
    _start_runs(router, engine, run_responses)
    _follow_runs(router, engine, run_responses)


def _start_runs(router: APIRouter, engine: Engine, run_responses: RunResponses) -> None:
    async def start(operation: str, body: StatelessRunBody, key: str | None) -> Run:
        idempotency = idempotent_request(key, operation, [body])
        follows = operation != "create"
        run = await engine.runs.start(body.start(None, idempotency, defer_sync=follows))
        if follows:
            await engine.runs.require_readable(run)
        return run

    @router.post("/runs", tags=["stateless runs"], responses=error_responses(400, 404, 429))
    async def create_stateless_run(
        body: Annotated[StatelessRunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> JsonResponse:
        run = await start("create", body, idempotency_key)
        return JsonResponse(run_json(run), headers={"content-location": short_run_path(run)})

    @router.post("/runs/stream", tags=["stateless runs"], responses=error_responses(400, 404, 429))
    async def stream_stateless_run(
        body: Annotated[StatelessRunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> Response:
        run = await start("stream", body, idempotency_key)
        return run_responses.stream(run, short_run_path(run), body)

    @router.post("/runs/wait", tags=["stateless runs"], responses=error_responses(400, 404, 429))
    async def wait_for_stateless_run(
        body: Annotated[StatelessRunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> Response:
        run = await start("wait", body, idempotency_key)
        return run_responses.outcome(run, run_path(run), cancel_on_disconnect=body.on_disconnect == "cancel")

    @router.post("/runs/batch", tags=["stateless runs"], responses=error_responses(400, 404, 429))
    async def create_batch(
        batch: Annotated[list[BatchedRunBody], Body(), Field(min_length=1, max_length=MAX_PAGE, fail_fast=True)],
        idempotency_key: IdempotencyKey = None,
    ) -> JsonResponse:
        idempotency = idempotent_request(idempotency_key, "batch", batch)
        requests = [
            body.start(body.thread(), idempotency and idempotency.part(number)) for number, body in enumerate(batch)
        ]
        return JsonResponse([run_json(run) for run in await engine.runs.start_all(requests)])

    @router.post("/runs/cancel", tags=["runs"], status_code=204, responses=error_responses(404))
    async def cancel_runs(body: Annotated[CancelBody, Body()], action: Action = "interrupt") -> Response:
        await engine.runs.cancel_many(body.selection(), action)
        return Response(status_code=204)


def _follow_runs(router: APIRouter, engine: Engine, run_responses: RunResponses) -> None:
    @router.get("/runs/{run_id}", tags=["stateless runs"])
    async def get_any_run(run_id: str) -> JsonResponse:
        return JsonResponse(run_json(await engine.runs.get(None, parse_run_id(run_id))))

    @router.delete("/runs/{run_id}", tags=["stateless runs"], status_code=204)
    async def delete_any_run(run_id: str) -> Response:
        await engine.runs.delete(None, parse_run_id(run_id))
        return Response(status_code=204)

    @router.get("/runs/{run_id}/join", tags=["stateless runs"])
    async def join_any_run(run_id: str, cancel_on_disconnect: CancelOnDisconnect) -> Response:
        run = await engine.runs.get(None, parse_run_id(run_id))
        return run_responses.outcome(run, short_run_path(run), cancel_on_disconnect=cancel_on_disconnect)

    @router.get("/runs/{run_id}/stream", tags=["stateless runs"], responses=error_responses(400))
    async def join_any_stream(
        run_id: str, cancel_on_disconnect: CancelOnDisconnect, stream_mode: Modes = None, last_event_id: Cursor = None
    ) -> Response:
        run = await engine.runs.get(None, parse_run_id(run_id))
        return await run_responses.joined_stream(
            run, short_run_path(run), stream_mode, last_event_id, cancel_on_disconnect=cancel_on_disconnect
        )

    @router.post("/runs/{run_id}/cancel", tags=["stateless runs"], responses=ACCEPTED)
    async def cancel_any_run(run_id: str, wait: bool = False, action: Action = "interrupt") -> Response:
        run = parse_run_id(run_id)
        await engine.runs.cancel(None, run, action, wait=wait)
        if wait:
            return JsonResponse({}, headers={"location": f"/runs/{run}/join", "content-location": f"/runs/{run}"})
        return Response(status_code=202)
