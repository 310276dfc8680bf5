"""Assistants over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Body

from threadwire.core.ids import AssistantId, parse_uuid
from threadwire.engine.lifecycle import Engine
from threadwire.errors import Invalid
from threadwire.http.problems import Json
from threadwire.protocols.langgraph.decode.assistants import AssistantSearch
from threadwire.protocols.langgraph.routes.pages import page, selected
from threadwire.protocols.langgraph.wire import assistant_json


def assistant_routes(router: APIRouter, engine: Engine) -> None:
    @router.post("/assistants/search", tags=["assistants"])
    async def search_assistants(body: Annotated[AssistantSearch, Body()]) -> Json:
        query = body.query()
        found = await engine.assistants.search(query)
        total = await engine.assistants.count(query)
        return page([selected(assistant_json(each), body.select) for each in found], total, body.offset)

    @router.get("/assistants/{assistant_id}", tags=["assistants"])
    async def get_assistant(assistant_id: str) -> Json:
        if (parsed := parse_uuid(assistant_id)) is None:
            raise Invalid("Invalid assistant ID: must be a UUID")
        return Json(assistant_json(await engine.assistants.get(AssistantId(parsed))))
