"""The store over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Body, Query
from starlette.requests import Request
from starlette.responses import Response

from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import JsonResponse, error_responses
from threadwire.http.trusted_source import is_foreign
from threadwire.protocols.langgraph.decode.store import (
    ItemBody,
    ItemName,
    ItemSearch,
    NamespaceSearch,
    decode_query_namespace,
)
from threadwire.protocols.langgraph.wire import found_item_json, item_json


def store_routes(router: APIRouter, engine: Engine) -> None:
    @router.put("/store/items", tags=["store"], status_code=204, responses=error_responses(400))
    async def put_item(body: Annotated[ItemBody, Body()]) -> Response:
        await engine.store.put(body.namespace, body.key, body.value, **body.options())
        return Response(status_code=204)

    @router.get("/store/items", tags=["store"])
    async def get_item(
        request: Request, key: str, namespace: Annotated[list[str], Query()], refresh_ttl: bool | None = None
    ) -> JsonResponse:
        refresh = False if is_foreign(request) else refresh_ttl  # a foreign page may cause reads, but no change
        item = await engine.store.get(decode_query_namespace(namespace), key, refresh_ttl=refresh)
        return JsonResponse(None if item is None else item_json(item))

    @router.delete("/store/items", tags=["store"], status_code=204)
    async def delete_item(body: Annotated[ItemName, Body()]) -> Response:
        await engine.store.delete(body.namespace, body.key)
        return Response(status_code=204)

    @router.post("/store/items/search", tags=["store"])
    async def search_items(body: Annotated[ItemSearch, Body()]) -> JsonResponse:
        found = await engine.store.search(body.namespace_prefix, **body.options())
        return JsonResponse({"items": [found_item_json(each) for each in found]})

    @router.post("/store/namespaces", tags=["store"])
    async def list_namespaces(body: Annotated[NamespaceSearch, Body()]) -> JsonResponse:
        return JsonResponse({"namespaces": await engine.store.namespaces(**body.options())})
