"""Runs over HTTP: starting, watching, stopping them."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Header, Query
from starlette.responses import Response

from threadwire.core.entries import START, parse_cursor
from threadwire.core.ids import Seq, parse_run_id, parse_thread_id
from threadwire.core.records import Run
from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import Json
from threadwire.http.streaming import LongResponse, OpenStreams, event_stream, patient_json
from threadwire.protocols.langgraph.decode.body import MAX_PAGE
from threadwire.protocols.langgraph.decode.query import decode_query_list, decode_query_modes
from threadwire.protocols.langgraph.decode.runs import RunBody
from threadwire.protocols.langgraph.encode import RunStreamEncoder, StreamOptions
from threadwire.protocols.langgraph.routes.pages import selected
from threadwire.protocols.langgraph.wire import run_json, run_location

Cursor = Annotated[str | None, Header(alias="last-event-id")]
IdempotencyKey = Annotated[str | None, Header(max_length=255)]
RunStatusName = Literal["pending", "running", "error", "success", "timeout", "interrupted"]


def run_routes(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    _start_runs(router, engine, streams)
    _watch_runs(router, engine, streams)


def _start_runs(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    @router.post("/threads/{thread_id}/runs", tags=["runs"])
    async def create_run(
        thread_id: str, body: Annotated[RunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> Json:
        run = await engine.runs.start(body.start(parse_thread_id(thread_id), idempotency_key=idempotency_key))
        return Json(run_json(run), headers={"content-location": run_location(run)})

    @router.post("/threads/{thread_id}/runs/stream", tags=["runs"])
    async def stream_run(
        thread_id: str, body: Annotated[RunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> Response:
        run = await engine.runs.start(body.start(parse_thread_id(thread_id), idempotency_key=idempotency_key))
        options = StreamOptions(frozenset(body.modes), body.stream_subgraphs)
        return _stream(engine, streams, run, options, START, cancel_on_disconnect=body.on_disconnect == "cancel")

    @router.post("/threads/{thread_id}/runs/wait", tags=["runs"])
    async def wait_for_run(
        thread_id: str, body: Annotated[RunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> Response:
        run = await engine.runs.start(body.start(parse_thread_id(thread_id), idempotency_key=idempotency_key))
        return _wait(engine, streams, run, cancel_on_disconnect=body.on_disconnect == "cancel")


def _watch_runs(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    @router.get("/threads/{thread_id}/runs", tags=["runs"])
    async def list_runs(
        thread_id: str,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 10,
        offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
        status: RunStatusName | None = None,
        select: Annotated[list[str] | None, Query()] = None,
    ) -> Json:
        fields = decode_query_list(select or [], "select") or None
        runs = await engine.runs.list(parse_thread_id(thread_id), status=status, limit=limit, offset=offset)
        return Json([selected(run_json(run), fields) for run in runs])

    @router.get("/threads/{thread_id}/runs/{run_id}", tags=["runs"])
    async def get_run(thread_id: str, run_id: str) -> Json:
        return Json(run_json(await engine.runs.get(parse_thread_id(thread_id), parse_run_id(run_id))))

    @router.delete("/threads/{thread_id}/runs/{run_id}", tags=["runs"], status_code=204)
    async def delete_run(thread_id: str, run_id: str) -> Response:
        await engine.runs.delete(parse_thread_id(thread_id), parse_run_id(run_id))
        return Response(status_code=204)

    @router.get("/threads/{thread_id}/runs/{run_id}/join", tags=["runs"])
    async def join_run(thread_id: str, run_id: str, cancel_on_disconnect: bool = False) -> Response:
        run = await engine.runs.get(parse_thread_id(thread_id), parse_run_id(run_id))
        return _wait(engine, streams, run, cancel_on_disconnect=cancel_on_disconnect)

    @router.get("/threads/{thread_id}/runs/{run_id}/stream", tags=["runs"])
    async def join_stream(
        thread_id: str,
        run_id: str,
        stream_mode: Annotated[list[str] | None, Query()] = None,
        cancel_on_disconnect: bool = False,
        last_event_id: Cursor = None,
    ) -> Response:
        run = await engine.runs.get(parse_thread_id(thread_id), parse_run_id(run_id))
        modes = decode_query_modes(stream_mode or []) or frozenset(run.kwargs["stream_mode"])
        options = StreamOptions(modes, run.kwargs["subgraphs"])
        after = await _position(engine, run, last_event_id)
        return _stream(engine, streams, run, options, after, cancel_on_disconnect=cancel_on_disconnect)

    @router.post("/threads/{thread_id}/runs/{run_id}/cancel", tags=["runs"])
    async def cancel_run(
        thread_id: str,
        run_id: str,
        wait: bool = False,
        action: Literal["interrupt", "rollback"] = "interrupt",
    ) -> Response:
        thread, run = parse_thread_id(thread_id), parse_run_id(run_id)
        await engine.runs.cancel(thread, run, action, wait=wait)
        if wait:
            return Json({}, headers={"location": f"/threads/{thread}/runs/{run}/join"})
        return Response(status_code=202)


async def _position(engine: Engine, run: Run, last_event_id: str | None) -> Seq:
    """Where a joining client starts: behind the id it names; with none, a live run from now, a finished one at its
    end."""
    if last_event_id is not None:
        return parse_cursor(last_event_id)
    return await engine.runs.newest(run.thread_id)


def _stream(
    engine: Engine,
    streams: OpenStreams,
    run: Run,
    options: StreamOptions,
    after: Seq,
    *,
    cancel_on_disconnect: bool,
) -> LongResponse:
    location = run_location(run)
    return event_stream(
        engine.runs.follow(run, options, partial(RunStreamEncoder, options), after),
        streams,
        headers={"location": f"{location}/stream", "content-location": location},
        on_disconnect=_cancelling(engine, run) if cancel_on_disconnect else None,
    )


def _wait(engine: Engine, streams: OpenStreams, run: Run, *, cancel_on_disconnect: bool) -> LongResponse:
    location = run_location(run)
    return patient_json(
        partial(engine.runs.outcome, run),
        streams,
        headers={"location": f"{location}/join", "content-location": location},
        on_disconnect=_cancelling(engine, run) if cancel_on_disconnect else None,
    )


def _cancelling(engine: Engine, run: Run) -> Callable[[], Awaitable[None]]:
    async def cancel() -> None:
        await engine.runs.stop_if_active(run, "interrupt")

    return cancel
