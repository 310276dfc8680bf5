"""Crons over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import Response

from threadwire.core.ids import CronId, parse_cron_id, parse_thread_id, uuid7
from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import JsonResponse, error_responses
from threadwire.protocols.langgraph.decode.crons import CronBody, CronFilter, CronPatch, CronSearch
from threadwire.protocols.langgraph.routes.pagination import page, selected
from threadwire.protocols.langgraph.wire import cron_json


def cron_routes(router: APIRouter, engine: Engine) -> None:
    @router.post("/runs/crons", tags=["crons"], responses=error_responses(400, 404))
    async def create_cron(body: Annotated[CronBody, Body()]) -> JsonResponse:
        cron = body.cron(CronId(uuid7()), None)
        return JsonResponse(cron_json(await engine.crons.create(cron, body.assistant_id)))

    @router.post("/threads/{thread_id}/runs/crons", tags=["crons"], responses=error_responses(400))
    async def create_cron_of_thread(thread_id: str, body: Annotated[CronBody, Body()]) -> JsonResponse:
        cron = body.cron(CronId(uuid7()), parse_thread_id(thread_id))
        return JsonResponse(cron_json(await engine.crons.create(cron, body.assistant_id)))

    @router.post("/runs/crons/search", tags=["crons"])
    async def search_crons(body: Annotated[CronSearch, Body()]) -> JsonResponse:
        found, total = await engine.crons.page(body.query(engine.registry.ids()))
        return page([selected(cron_json(each), body.select) for each in found], total, body.offset)

    @router.post("/runs/crons/count", tags=["crons"])
    async def count_crons(body: Annotated[CronFilter, Body()]) -> JsonResponse:
        return JsonResponse(await engine.crons.count(body.filter(engine.registry.ids())))

    @router.get("/runs/crons/{cron_id}", tags=["crons"])
    async def get_cron(cron_id: str) -> JsonResponse:
        return JsonResponse(cron_json(await engine.crons.get(parse_cron_id(cron_id))))

    @router.patch("/runs/crons/{cron_id}", tags=["crons"], responses=error_responses(400))
    async def update_cron(cron_id: str, body: Annotated[CronPatch, Body()]) -> JsonResponse:
        body.reject_empty()
        fields = body.model_dump(mode="json", exclude_unset=True)
        return JsonResponse(cron_json(await engine.crons.update(parse_cron_id(cron_id), body.change, fields)))

    @router.delete("/runs/crons/{cron_id}", tags=["crons"], status_code=204)
    async def delete_cron(cron_id: str) -> Response:
        await engine.crons.delete(parse_cron_id(cron_id))
        return Response(status_code=204)
