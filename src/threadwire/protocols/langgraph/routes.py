"""The LangGraph API over HTTP: a thin edge from requests to the engine and back."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Header, Query
from starlette.responses import Response

from threadwire.core.entries import START, parse_cursor
from threadwire.core.ids import AssistantId, Seq, parse_run_id, parse_thread_id, parse_uuid
from threadwire.core.records import AssistantQuery, Run
from threadwire.engine.lifecycle import Engine
from threadwire.errors import Invalid
from threadwire.http.limits import JsonRoute
from threadwire.http.problems import Json
from threadwire.http.streaming import LongResponse, OpenStreams, event_stream, patient_json
from threadwire.protocols.langgraph import decode, wire
from threadwire.protocols.langgraph.encode import RunStreamEncoder, StreamOptions

Cursor = Annotated[str | None, Header(alias="last-event-id")]
IdempotencyKey = Annotated[str | None, Header(max_length=255)]
RunStatusName = Literal["pending", "running", "error", "success", "timeout", "interrupted"]


def langgraph_routes(engine: Engine, streams: OpenStreams) -> APIRouter:
    router = APIRouter(route_class=JsonRoute, default_response_class=Json)
    _assistants(router, engine)
    _threads(router, engine)
    _state(router, engine)
    _start_runs(router, engine, streams)
    _watch_runs(router, engine, streams)
    return router


# -- assistants ------------------------------------------------------------------------------------------------------


def _assistants(router: APIRouter, engine: Engine) -> None:
    @router.post("/assistants/search", tags=["assistants"])
    async def search_assistants(body: Annotated[decode.AssistantSearch, Body()]) -> Json:
        query = AssistantQuery(
            graph_id=body.graph_id,
            name=body.name,
            metadata=body.metadata,
            limit=body.limit,
            offset=body.offset,
            sort_by=body.sort_by or "created_at",
            descending=body.sort_order != "asc",
        )
        found = await engine.assistants.search(query)
        total = await engine.assistants.count(query)
        return _page([_selected(wire.assistant_json(each), body.select) for each in found], total, body.offset)

    @router.get("/assistants/{assistant_id}", tags=["assistants"])
    async def get_assistant(assistant_id: str) -> Json:
        if (parsed := parse_uuid(assistant_id)) is None:
            raise Invalid("Invalid assistant ID: must be a UUID")
        return Json(wire.assistant_json(await engine.assistants.get(AssistantId(parsed))))


# -- threads ---------------------------------------------------------------------------------------------------------


def _threads(router: APIRouter, engine: Engine) -> None:
    @router.post("/threads", tags=["threads"])
    async def create_thread(body: Annotated[decode.ThreadBody, Body()]) -> Json:
        thread_id = parse_thread_id(body.thread_id) if body.thread_id is not None else None
        thread = await engine.threads.create(thread_id, body.metadata, body.if_exists)
        return Json(wire.thread_json(thread))

    @router.post("/threads/search", tags=["threads"])
    async def search_threads(body: Annotated[decode.ThreadSearch, Body()]) -> Json:
        query = body.query()
        found = await engine.threads.search(query)
        total = await engine.threads.count(query)
        return _page([_selected(wire.thread_json(each), body.select) for each in found], total, body.offset)

    @router.post("/threads/count", tags=["threads"])
    async def count_threads(body: Annotated[decode.ThreadSearch, Body()]) -> Json:
        return Json(await engine.threads.count(body.query()))

    @router.get("/threads/{thread_id}", tags=["threads"])
    async def get_thread(thread_id: str) -> Json:
        return Json(wire.thread_json(await engine.threads.get(parse_thread_id(thread_id))))

    @router.patch("/threads/{thread_id}", tags=["threads"])
    async def update_thread(
        thread_id: str, body: Annotated[decode.ThreadPatch, Body()], prefer: Annotated[str | None, Header()] = None
    ) -> Response:
        thread = await engine.threads.update(parse_thread_id(thread_id), body.metadata)
        return Response(status_code=204) if prefer == "return=minimal" else Json(wire.thread_json(thread))

    @router.delete("/threads/{thread_id}", tags=["threads"], status_code=204)
    async def delete_thread(thread_id: str) -> Response:
        await engine.threads.delete(parse_thread_id(thread_id))
        return Response(status_code=204)


def _state(router: APIRouter, engine: Engine) -> None:
    @router.get("/threads/{thread_id}/state", tags=["state"])
    async def get_state(thread_id: str, subgraphs: bool = False) -> Json:
        return Json(await engine.threads.state(parse_thread_id(thread_id), subgraphs=subgraphs))

    @router.post("/threads/{thread_id}/state", tags=["state"])
    async def update_state(thread_id: str, body: Annotated[decode.StateUpdate, Body()]) -> Json:
        moved = await engine.threads.update_state(parse_thread_id(thread_id), body.values, body.as_node, body.at())
        return Json(wire.update_json(moved))

    @router.get("/threads/{thread_id}/state/{checkpoint_id}", tags=["state"])
    async def get_state_at(thread_id: str, checkpoint_id: str, subgraphs: bool = False) -> Json:
        at = decode.checkpoint_at(None, checkpoint_id)
        return Json(await engine.threads.state(parse_thread_id(thread_id), at, subgraphs=subgraphs))

    @router.post("/threads/{thread_id}/state/checkpoint", tags=["state"])
    async def get_state_at_checkpoint(thread_id: str, body: Annotated[decode.StateAtCheckpoint, Body()]) -> Json:
        at = decode.checkpoint_at(body.checkpoint, None)
        return Json(await engine.threads.state(parse_thread_id(thread_id), at, subgraphs=body.subgraphs))

    @router.get("/threads/{thread_id}/history", tags=["state"])
    async def get_history(
        thread_id: str, limit: Annotated[int, Query(ge=1, le=decode.MAX_PAGE)] = 1, before: str | None = None
    ) -> Json:
        body = decode.HistoryBody(limit=limit, before=before)
        return Json(await engine.threads.history(parse_thread_id(thread_id), limit=limit, before=body.bound()))

    @router.post("/threads/{thread_id}/history", tags=["state"])
    async def post_history(thread_id: str, body: Annotated[decode.HistoryBody, Body()]) -> Json:
        found = await engine.threads.history(
            parse_thread_id(thread_id),
            limit=body.limit,
            before=body.bound(),
            metadata=body.metadata,
            checkpoint=decode.checkpoint_at(body.checkpoint, None),
        )
        return Json(found)


# -- runs ------------------------------------------------------------------------------------------------------------


def _start_runs(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    @router.post("/threads/{thread_id}/runs", tags=["runs"])
    async def create_run(
        thread_id: str, body: Annotated[decode.RunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> Json:
        run = await engine.runs.start(body.start(parse_thread_id(thread_id), idempotency_key=idempotency_key))
        return Json(wire.run_json(run), headers={"content-location": wire.run_location(run)})

    @router.post("/threads/{thread_id}/runs/stream", tags=["runs"])
    async def stream_run(
        thread_id: str, body: Annotated[decode.RunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> Response:
        run = await engine.runs.start(body.start(parse_thread_id(thread_id), idempotency_key=idempotency_key))
        options = StreamOptions(frozenset(body.modes), body.stream_subgraphs)
        return _stream(engine, streams, run, options, START, cancel_on_disconnect=body.on_disconnect == "cancel")

    @router.post("/threads/{thread_id}/runs/wait", tags=["runs"])
    async def wait_for_run(
        thread_id: str, body: Annotated[decode.RunBody, Body()], idempotency_key: IdempotencyKey = None
    ) -> Response:
        run = await engine.runs.start(body.start(parse_thread_id(thread_id), idempotency_key=idempotency_key))
        return _wait(engine, streams, run, cancel_on_disconnect=body.on_disconnect == "cancel")


def _watch_runs(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    @router.get("/threads/{thread_id}/runs", tags=["runs"])
    async def list_runs(
        thread_id: str,
        limit: Annotated[int, Query(ge=1, le=decode.MAX_PAGE)] = 10,
        offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
        status: RunStatusName | None = None,
        select: Annotated[list[str] | None, Query()] = None,
    ) -> Json:
        fields = decode.decode_query_list(select or [], "select") or None
        runs = await engine.runs.list(parse_thread_id(thread_id), status=status, limit=limit, offset=offset)
        return Json([_selected(wire.run_json(run), fields) for run in runs])

    @router.get("/threads/{thread_id}/runs/{run_id}", tags=["runs"])
    async def get_run(thread_id: str, run_id: str) -> Json:
        return Json(wire.run_json(await engine.runs.get(parse_thread_id(thread_id), parse_run_id(run_id))))

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
        modes = decode.decode_query_modes(stream_mode or []) or frozenset(run.kwargs["stream_mode"])
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
    location = wire.run_location(run)
    return event_stream(
        engine.runs.follow(run, options, partial(RunStreamEncoder, options), after),
        streams,
        headers={"location": f"{location}/stream", "content-location": location},
        on_disconnect=_cancelling(engine, run) if cancel_on_disconnect else None,
    )


def _wait(engine: Engine, streams: OpenStreams, run: Run, *, cancel_on_disconnect: bool) -> LongResponse:
    location = wire.run_location(run)
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


def _page(rows: list[Any], total: int, offset: int) -> Json:
    headers = {"x-pagination-total": str(total)}
    if offset + len(rows) < total and rows:
        headers["x-pagination-next"] = str(offset + len(rows))
    return Json(rows, headers=headers)


def _selected(row: dict[str, Any], select: list[str] | None) -> dict[str, Any]:
    return row if select is None else {key: value for key, value in row.items() if key in select}
