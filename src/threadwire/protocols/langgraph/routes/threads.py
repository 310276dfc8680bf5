"""Threads over HTTP."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Header, Query
from starlette.responses import Response

from threadwire.core.entries import START, parse_cursor
from threadwire.core.ids import Seq, parse_thread_id
from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import JsonResponse, error_responses
from threadwire.http.sse import named_events
from threadwire.http.streaming import OpenStreams, event_stream
from threadwire.protocols.langgraph.decode.extract import follow_path
from threadwire.protocols.langgraph.decode.query import decode_include, decode_thread_modes
from threadwire.protocols.langgraph.decode.threads import (
    StatePatch,
    ThreadBody,
    ThreadCount,
    ThreadPatch,
    ThreadPrune,
    ThreadSearch,
)
from threadwire.protocols.langgraph.encode_thread import ThreadStreamEncoder
from threadwire.protocols.langgraph.routes.pagination import page, selected
from threadwire.protocols.langgraph.wire import storage_json, thread_json

Names = Annotated[list[str] | None, Query()]


def thread_routes(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    _many_threads(router, engine)
    _one_thread(router, engine)
    _follow_thread(router, engine, streams)


def _many_threads(router: APIRouter, engine: Engine) -> None:
    @router.post("/threads", tags=["threads"], responses=error_responses(400, 409))
    async def create_thread(body: Annotated[ThreadBody, Body()]) -> JsonResponse:
        thread_id = parse_thread_id(body.thread_id) if body.thread_id is not None else None
        arguments = (thread_id, body.metadata, body.if_exists, body.wanted_ttl())
        if steps := body.steps():
            return JsonResponse(thread_json(await engine.threads_with_history.from_supersteps(steps, *arguments)))
        return JsonResponse(thread_json(await engine.threads.create(*arguments)))

    @router.post("/threads/search", tags=["threads"])
    async def search_threads(body: Annotated[ThreadSearch, Body()]) -> JsonResponse:
        paths = body.paths()
        found, total = await engine.threads.page(body.query())
        rows = []
        for thread in map(thread_json, found):
            row = selected(thread, body.select)
            if paths:
                row = {**row, "extracted": {alias: follow_path(path, thread) for alias, path in paths.items()}}
            rows.append(row)
        return page(rows, total, body.offset)

    @router.post("/threads/count", tags=["threads"])
    async def count_threads(body: Annotated[ThreadCount, Body()]) -> JsonResponse:
        return JsonResponse(await engine.threads.count(body.query()))

    @router.post("/threads/prune", tags=["threads"])
    async def prune_threads(body: Annotated[ThreadPrune, Body()]) -> JsonResponse:
        return JsonResponse({"pruned_count": await engine.threads.prune(body.ids(), body.strategy)})


def _one_thread(router: APIRouter, engine: Engine) -> None:
    @router.get("/threads/{thread_id}", tags=["threads"])
    async def get_thread(thread_id: str, include: Names = None) -> JsonResponse:
        included = decode_include(include or [])
        thread = await engine.threads.get(parse_thread_id(thread_id))
        return JsonResponse(thread_json(thread, include_ttl="ttl" in included))

    @router.patch(
        "/threads/{thread_id}",
        tags=["threads"],
        responses={204: {"description": "With `Prefer: return=minimal`"}},
    )
    async def update_thread(
        thread_id: str, body: Annotated[ThreadPatch, Body()], prefer: Annotated[str | None, Header()] = None
    ) -> Response:
        thread = await engine.threads.update(parse_thread_id(thread_id), body.metadata, body.wanted_ttl())
        return Response(status_code=204) if _prefers_minimal(prefer) else JsonResponse(thread_json(thread))

    @router.patch("/threads/{thread_id}/state", tags=["threads"])
    async def patch_state(thread_id: str, body: Annotated[StatePatch, Body()]) -> JsonResponse:
        return JsonResponse(thread_json(await engine.threads.update(parse_thread_id(thread_id), body.metadata)))

    @router.delete("/threads/{thread_id}", tags=["threads"], status_code=204)
    async def delete_thread(thread_id: str) -> Response:
        await engine.threads.delete(parse_thread_id(thread_id))
        return Response(status_code=204)

    @router.post("/threads/{thread_id}/copy", tags=["threads"])
    async def copy_thread(thread_id: str) -> JsonResponse:
        return JsonResponse(thread_json(await engine.threads_with_history.copy_of(parse_thread_id(thread_id))))

    @router.get("/threads/{thread_id}/storage", tags=["threads"])
    async def get_storage(thread_id: str) -> JsonResponse:
        parsed = parse_thread_id(thread_id)
        return JsonResponse(storage_json(parsed, await engine.threads.sizes(parsed)))


def _follow_thread(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    @router.get("/threads/{thread_id}/stream", tags=["threads"], responses=error_responses(400))
    async def join_thread_stream(
        thread_id: str,
        stream_mode: Names = None,
        stream_modes: Names = None,
        last_event_id: Annotated[str | None, Header(alias="last-event-id")] = None,
    ) -> Response:
        modes = decode_thread_modes([*(stream_mode or []), *(stream_modes or [])])
        cursor = _cursor(last_event_id)
        thread = await engine.threads.get(parse_thread_id(thread_id), with_state=False)
        follower = await engine.joins.thread(
            thread.thread_id, ("langgraph", modes), partial(ThreadStreamEncoder, modes), named_events, cursor
        )
        return event_stream(follower, streams)


def _cursor(last_event_id: str | None) -> Seq | None:
    """The position to stream from; None to stream only what follows. On this stream `-` also means the start."""
    if last_event_id is None:
        return None
    return START if last_event_id == "-" else parse_cursor(last_event_id)


def _prefers_minimal(prefer: str | None) -> bool:
    return "return=minimal" in [each.strip().lower() for each in (prefer or "").replace(";", ",").split(",")]
