"""UI components of graphs over HTTP, for `LoadExternalComponent` of the JavaScript SDK."""

import html
import json
import mimetypes
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Body, Request
from starlette.responses import HTMLResponse, Response

from threadwire.core.ids import AssistantId, parse_uuid
from threadwire.engine.lifecycle import Engine
from threadwire.errors import NotFound
from threadwire.graphs.ui import ENTRY, STYLE, global_name
from threadwire.protocols.langgraph.decode.ui import ComponentBody

_HEADERS = {"cache-control": "no-cache", "x-content-type-options": "nosniff"}


def ui_routes(router: APIRouter, engine: Engine) -> None:
    async def name_of(graph_id: str) -> str:
        """The name of the graph. A client may use the id of one of its assistants."""
        bundles = engine.registry.ui
        if graph_id not in bundles and (assistant_id := parse_uuid(graph_id)) is not None:
            graph_id = (await engine.assistants.get(AssistantId(assistant_id))).graph_id
        if graph_id not in bundles:
            raise NotFound(f"There is no UI for '{graph_id[:200]}'")
        return graph_id

    @router.post("/ui/{graph_id}", tags=["ui"])
    async def load_component(graph_id: str, body: Annotated[ComponentBody, Body()], request: Request) -> HTMLResponse:
        name = await name_of(graph_id)
        files = await engine.registry.ui.files(name)
        # The page is on another origin, so the URLs are absolute.
        root = f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"
        base = f"{root}/ui/{quote(name, safe='')}"
        return HTMLResponse(_loader(base, name, body.name, styled=STYLE in files))

    @router.get("/ui/{graph_id}/{file}", tags=["ui"])
    async def get_bundle_file(graph_id: str, file: str) -> Response:
        files = await engine.registry.ui.files(await name_of(graph_id))
        if (content := files.get(file)) is None:
            raise NotFound("Not Found")
        kind = mimetypes.guess_type(file)[0] or "application/octet-stream"
        return Response(content, media_type=kind, headers=_HEADERS)


def _loader(base: str, name: str, component: str, *, styled: bool) -> str:
    """HTML that loads and renders the component. The page replaces `{{shadowRootId}}` once, with the target's id."""
    call = f'{global_name(name)}.render({json.dumps(component)}, "{{{{shadowRootId}}}}")'
    script = f'<script src="{html.escape(f"{base}/{ENTRY}")}" onload="{html.escape(call)}"></script>'
    style = f'<link rel="stylesheet" href="{html.escape(f"{base}/{STYLE}")}">' if styled else ""
    return script + style
