"""The routes: one endpoint for all operations, uploads, and a page's options."""

from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from threadwire.core.json import dumps
from threadwire.core.records import Assistant
from threadwire.engine.lifecycle import Engine
from threadwire.http.authentication import caller_of
from threadwire.http.problems import JsonResponse, error_responses
from threadwire.http.streaming import OpenStreams
from threadwire.protocols.chatkit import folds
from threadwire.protocols.chatkit.agents import Agents
from threadwire.protocols.chatkit.attachment_access import find_attachment
from threadwire.protocols.chatkit.attachments import AttachmentStore
from threadwire.protocols.chatkit.decode import Envelope
from threadwire.protocols.chatkit.options import options_json
from threadwire.protocols.chatkit.routes.attachment_links import AttachmentLinks
from threadwire.protocols.chatkit.routes.bad_requests import ChatKitRoute
from threadwire.protocols.chatkit.routes.operations import Operations
from threadwire.protocols.chatkit.routes.uploads import preview, upload_content, upload_directly
from threadwire.protocols.chatkit.threads import feedback_json, find_agent, find_thread
from threadwire.protocols.chatkit.turns import IdempotentRequest

PREFIX = "/chatkit"


def chatkit_routes(
    engine: Engine, streams: OpenStreams, agents: Agents, attachments: AttachmentStore, default_agent: str
) -> APIRouter:
    router = APIRouter(prefix=PREFIX, route_class=ChatKitRoute, default_response_class=JsonResponse, tags=["chatkit"])

    @router.post("", responses=error_responses(409, 413, 429, 502, 503))
    async def call_default_agent(request: Request, body: Annotated[Envelope, Body()]) -> Response:
        return await respond(request, await find_agent(engine, default_agent or engine.registry.ids()[0]), body)

    @router.post("/{agent}", responses=error_responses(409, 413, 429, 502, 503))
    async def call_agent(agent: str, request: Request, body: Annotated[Envelope, Body()]) -> Response:
        return await respond(request, await find_agent(engine, agent), body)

    @router.get("/{agent}/options")
    async def get_options(agent: str, request: Request) -> JsonResponse:
        found = await find_agent(engine, agent)
        return JsonResponse(options_json(agents.config(found.graph_id), _address(request, found)))

    @router.get("/{agent}/threads/{thread_id}/feedback")
    async def get_feedback(agent: str, thread_id: str) -> JsonResponse:
        thread = await find_thread(engine, await find_agent(engine, agent), thread_id)
        fold = await folds.current(engine, agents, thread.thread_id)
        return JsonResponse({"feedback": feedback_json(fold)})

    @router.post("/{agent}/attachments", responses=error_responses(413))
    async def upload_attachment(agent: str, request: Request) -> JsonResponse:
        found = await find_agent(engine, agent)
        attachment = await upload_directly(attachments, found, request, agents.config(found.graph_id))
        return JsonResponse(await _links(engine, request, found).of(attachment))

    @router.put("/{agent}/attachments/{attachment_id}/content", responses=error_responses(409, 413))
    async def upload_attachment_content(agent: str, attachment_id: str, request: Request) -> JsonResponse:
        found = await find_agent(engine, agent)
        announced = await find_attachment(engine, attachments, found, attachment_id)
        config, content = agents.config(found.graph_id), await request.body()
        attachment = await upload_content(attachments, announced, content, config)
        return JsonResponse(await _links(engine, request, found).of(attachment))

    @router.get("/{agent}/attachments/{attachment_id}/preview", response_class=Response)
    async def get_attachment_preview(agent: str, attachment_id: str) -> Response:
        found = await find_agent(engine, agent)
        return await preview(attachments, await find_attachment(engine, attachments, found, attachment_id))

    async def respond(request: Request, agent: Assistant, body: Envelope) -> Response:
        links, idempotent_request = _links(engine, request, agent), _idempotent_request(request, body)
        operations = Operations(engine, streams, agents, attachments, links, agent, idempotent_request)
        return await operations.respond(body.request())

    return router


def _links(engine: Engine, request: Request, agent: Assistant) -> AttachmentLinks:
    address = f"{_address(request, agent)}/attachments"
    return AttachmentLinks(engine.storage.tickets, caller_of(request.scope), address)


def _idempotent_request(request: Request, body: Envelope) -> IdempotentRequest | None:
    key = request.headers.get("idempotency-key")
    if not key:
        return None
    return IdempotentRequest(key, sha256(dumps([request.url.path, body.type, body.params])).hexdigest())


def _address(request: Request, agent: Assistant) -> str:
    """The URL of an agent's endpoint, as the client reaches it."""
    name = agent.name if agent.name == agent.graph_id else agent.assistant_id
    return f"{str(request.base_url).rstrip('/')}{PREFIX}/{name}"
