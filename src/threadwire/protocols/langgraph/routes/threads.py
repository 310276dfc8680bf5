"""Threads over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Body, Header
from starlette.responses import Response

from threadwire.core.ids import parse_thread_id
from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import Json
from threadwire.protocols.langgraph.decode.threads import ThreadBody, ThreadPatch, ThreadSearch
from threadwire.protocols.langgraph.routes.pages import page, selected
from threadwire.protocols.langgraph.wire import thread_json


def thread_routes(router: APIRouter, engine: Engine) -> None:
    @router.post("/threads", tags=["threads"])
    async def create_thread(body: Annotated[ThreadBody, Body()]) -> Json:
        thread_id = parse_thread_id(body.thread_id) if body.thread_id is not None else None
        thread = await engine.threads.create(thread_id, body.metadata, body.if_exists)
        return Json(thread_json(thread))

    @router.post("/threads/search", tags=["threads"])
    async def search_threads(body: Annotated[ThreadSearch, Body()]) -> Json:
        query = body.query()
        found = await engine.threads.search(query)
        total = await engine.threads.count(query)
        return page([selected(thread_json(each), body.select) for each in found], total, body.offset)

    @router.post("/threads/count", tags=["threads"])
    async def count_threads(body: Annotated[ThreadSearch, Body()]) -> Json:
        return Json(await engine.threads.count(body.query()))

    @router.get("/threads/{thread_id}", tags=["threads"])
    async def get_thread(thread_id: str) -> Json:
        return Json(thread_json(await engine.threads.get(parse_thread_id(thread_id))))

    @router.patch("/threads/{thread_id}", tags=["threads"])
    async def update_thread(
        thread_id: str, body: Annotated[ThreadPatch, Body()], prefer: Annotated[str | None, Header()] = None
    ) -> Response:
        thread = await engine.threads.update(parse_thread_id(thread_id), body.metadata)
        return Response(status_code=204) if prefer == "return=minimal" else Json(thread_json(thread))

    @router.delete("/threads/{thread_id}", tags=["threads"], status_code=204)
    async def delete_thread(thread_id: str) -> Response:
        await engine.threads.delete(parse_thread_id(thread_id))
        return Response(status_code=204)
