"""`POST /tickets`: a one-time credential for a request that a browser makes without headers."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from threadwire.core.timestamps import to_datetime
from threadwire.errors import NotFound
from threadwire.http.authentication import caller_of
from threadwire.http.problems import JsonResponse, error_responses
from threadwire.http.tickets import issue_ticket
from threadwire.server.health import SYSTEM
from threadwire.storage.abc import Tickets


class Ticket(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ticket: str = Field(description="Add it to the URL of an EventSource or a WebSocket: `?ticket=…`.")
    expires_at: str


def ticket_route(tickets: Tickets, seconds: float) -> APIRouter:
    router = APIRouter(default_response_class=JsonResponse, tags=[SYSTEM.name])

    @router.post("/tickets", response_model=Ticket, responses=error_responses(404))
    async def issue(request: Request) -> JsonResponse:
        if (caller := caller_of(request.scope)) is None:
            raise NotFound("This server has no authentication, so no ticket is needed.")
        ticket, expires_at = await issue_ticket(tickets, caller, seconds)
        body = {"ticket": ticket, "expires_at": to_datetime(expires_at).isoformat()}
        return JsonResponse(body, headers={"cache-control": "no-store"})

    return router
