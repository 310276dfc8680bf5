"""Assistants over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Body, Query
from starlette.responses import Response

from threadwire.core.ids import parse_assistant_id
from threadwire.core.records import Assistant
from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import GRAPH_ERRORS, JsonResponse, error_responses
from threadwire.protocols.langgraph.decode.assistants import (
    AssistantBody,
    AssistantFilter,
    AssistantPatch,
    AssistantSearch,
    LatestVersion,
    VersionSearch,
    decode_xray,
)
from threadwire.protocols.langgraph.routes.pagination import page, selected
from threadwire.protocols.langgraph.wire import assistant_json, version_json


def assistant_routes(router: APIRouter, engine: Engine) -> None:
    assistants = engine.assistants

    async def find(assistant_id: str) -> Assistant:
        return await assistants.get(parse_assistant_id(assistant_id))

    @router.post("/assistants", tags=["assistants"], responses=error_responses(400, 404, 409))
    async def create_assistant(body: Annotated[AssistantBody, Body()]) -> JsonResponse:
        return JsonResponse(assistant_json(await assistants.create(body.new())))

    @router.post("/assistants/search", tags=["assistants"])
    async def search_assistants(body: Annotated[AssistantSearch, Body()]) -> JsonResponse:
        rows, total = await assistants.page(body.query())
        return page([selected(assistant_json(each), body.select) for each in rows], total, body.offset)

    @router.post("/assistants/count", tags=["assistants"])
    async def count_assistants(body: Annotated[AssistantFilter, Body()]) -> JsonResponse:
        return JsonResponse(await assistants.count(body.query()))

    @router.get("/assistants/{assistant_id}", tags=["assistants"])
    async def get_assistant(assistant_id: str) -> JsonResponse:
        return JsonResponse(assistant_json(await find(assistant_id)))

    @router.patch("/assistants/{assistant_id}", tags=["assistants"])
    async def update_assistant(assistant_id: str, body: Annotated[AssistantPatch, Body()]) -> JsonResponse:
        return JsonResponse(assistant_json(await assistants.update(parse_assistant_id(assistant_id), body.change())))

    @router.delete("/assistants/{assistant_id}", tags=["assistants"], status_code=204, responses=error_responses(409))
    async def delete_assistant(assistant_id: str, delete_threads: bool = False) -> Response:
        await assistants.delete(parse_assistant_id(assistant_id), delete_threads=delete_threads)
        return Response(status_code=204)

    @router.post("/assistants/{assistant_id}/versions", tags=["assistants"])
    async def list_versions(assistant_id: str, body: Annotated[VersionSearch, Body()]) -> JsonResponse:
        versions = await assistants.versions(
            parse_assistant_id(assistant_id), metadata=body.metadata, limit=body.limit, offset=body.offset
        )
        return JsonResponse([version_json(each) for each in versions])

    @router.post("/assistants/{assistant_id}/latest", tags=["assistants"])
    async def set_latest_version(assistant_id: str, body: Annotated[LatestVersion, Body()]) -> JsonResponse:
        return JsonResponse(assistant_json(await assistants.set_latest(parse_assistant_id(assistant_id), body.version)))

    @router.get("/assistants/{assistant_id}/graph", tags=["assistants"], responses=GRAPH_ERRORS)
    async def get_graph(assistant_id: str, xray: Annotated[str | None, Query()] = None) -> JsonResponse:
        assistant = await assistants.of_graph(assistant_id) or await find(assistant_id)
        return JsonResponse(await assistants.drawing(assistant, decode_xray(xray)))

    @router.get("/assistants/{assistant_id}/schemas", tags=["assistants"], responses=GRAPH_ERRORS)
    async def get_schemas(assistant_id: str) -> JsonResponse:
        return JsonResponse(await assistants.schemas(await find(assistant_id)))

    @router.get("/assistants/{assistant_id}/subgraphs", tags=["assistants"], responses=GRAPH_ERRORS)
    async def get_subgraphs(assistant_id: str, recurse: bool = False) -> JsonResponse:
        return JsonResponse(await assistants.subgraphs(await find(assistant_id), None, recurse=recurse))

    @router.get("/assistants/{assistant_id}/subgraphs/{namespace:path}", tags=["assistants"], responses=GRAPH_ERRORS)
    async def get_subgraphs_of(assistant_id: str, namespace: str, recurse: bool = False) -> JsonResponse:
        return JsonResponse(await assistants.subgraphs(await find(assistant_id), namespace, recurse=recurse))
