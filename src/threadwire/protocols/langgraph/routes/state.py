"""A thread's state and history over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Body, Query
from starlette.responses import Response

from threadwire.core.ids import parse_thread_id
from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import GRAPH_ERRORS, JsonResponse, error_responses
from threadwire.protocols.langgraph.decode.body import MAX_PAGE
from threadwire.protocols.langgraph.decode.query import names_in_query
from threadwire.protocols.langgraph.decode.state import (
    HistoryBody,
    StateAtCheckpoint,
    StateUpdate,
    checkpoint_at,
    decode_state_fields,
)
from threadwire.protocols.langgraph.wire import encoded_state, state_json, update_json

Fields = Annotated[list[str] | None, Query()]


def state_routes(router: APIRouter, engine: Engine) -> None:
    @router.get("/threads/{thread_id}/state", tags=["state"], responses=GRAPH_ERRORS)
    async def get_state(thread_id: str, subgraphs: bool = False, select: Fields = None) -> Response:
        fields = decode_state_fields(names_in_query(select or [], "select"))
        state = await engine.threads.encoded_state(parse_thread_id(thread_id), subgraphs=subgraphs)
        return Response(encoded_state(state, fields), media_type="application/json")

    @router.post("/threads/{thread_id}/state", tags=["state"], responses={**GRAPH_ERRORS, **error_responses(400, 409)})
    async def update_state(thread_id: str, body: Annotated[StateUpdate, Body()]) -> JsonResponse:
        config = await engine.threads.update_state(parse_thread_id(thread_id), body.values, body.as_node, body.at())
        return JsonResponse(update_json(config))

    @router.get("/threads/{thread_id}/state/{checkpoint_id}", tags=["state"], responses=GRAPH_ERRORS)
    async def get_state_at(
        thread_id: str, checkpoint_id: str, subgraphs: bool = False, select: Fields = None
    ) -> Response:
        fields = decode_state_fields(names_in_query(select or [], "select"))
        at = checkpoint_at(None, checkpoint_id)
        state = await engine.threads.encoded_state(parse_thread_id(thread_id), at, subgraphs=subgraphs)
        return Response(encoded_state(state, fields), media_type="application/json")

    @router.post("/threads/{thread_id}/state/checkpoint", tags=["state"], responses=GRAPH_ERRORS)
    async def get_state_at_checkpoint(thread_id: str, body: Annotated[StateAtCheckpoint, Body()]) -> Response:
        fields = decode_state_fields(body.select)
        at = checkpoint_at(body.checkpoint, None)
        state = await engine.threads.encoded_state(parse_thread_id(thread_id), at, subgraphs=body.subgraphs)
        return Response(encoded_state(state, fields), media_type="application/json")

    @router.get("/threads/{thread_id}/history", tags=["state"], responses=GRAPH_ERRORS)
    async def get_history(
        thread_id: str, limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 1, before: str | None = None
    ) -> JsonResponse:
        body = HistoryBody(limit=limit, before=before)
        return JsonResponse(
            await engine.threads.history(parse_thread_id(thread_id), limit=limit, before=body.before_checkpoint())
        )

    @router.post("/threads/{thread_id}/history", tags=["state"], responses=GRAPH_ERRORS)
    async def post_history(thread_id: str, body: Annotated[HistoryBody, Body()]) -> JsonResponse:
        fields = decode_state_fields(body.select)
        history = await engine.threads.history(
            parse_thread_id(thread_id),
            limit=body.limit,
            before=body.before_checkpoint(),
            metadata=body.metadata,
            checkpoint=checkpoint_at(body.checkpoint, None),
        )
        return JsonResponse([state_json(each, fields) for each in history])
