"""The thread wire over HTTP: events as server-sent events, commands as requests."""

from typing import Annotated, Literal

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from threadwire.core.ids import parse_thread_id
from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import JsonResponse, error_responses
from threadwire.http.sse import named_events
from threadwire.http.streaming import OpenStreams, event_stream
from threadwire.protocols.langgraph.thread_wire import command_responses
from threadwire.protocols.langgraph.thread_wire.commands import execute
from threadwire.protocols.langgraph.thread_wire.decode import (
    CommandBody,
    CommandError,
    EventStreamBody,
    decode_command,
)
from threadwire.protocols.langgraph.thread_wire.following import follow


class NoCommand(BaseModel):
    """The body of a 400: the response of the protocol to a body that is not a command."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["error"]
    id: None
    error: Literal["invalid_argument"]
    message: str


_NO_COMMAND = error_responses(400, shape=NoCommand)


def thread_wire_routes(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    @router.post("/threads/{thread_id}/stream/events", tags=["thread wire"], responses=error_responses(400))
    async def stream_events(thread_id: str, body: Annotated[EventStreamBody, Body()]) -> Response:
        found, subscription = parse_thread_id(thread_id), body.subscription()
        return event_stream(await follow(engine, found, [subscription], body.position, named_events), streams)

    @router.post("/threads/{thread_id}/commands", tags=["thread wire"], responses=_NO_COMMAND)
    async def execute_command(thread_id: str, body: Annotated[CommandBody, Body()]) -> JsonResponse:
        found = parse_thread_id(thread_id)
        try:
            command = decode_command(body.model_dump())
        except CommandError as error:
            return JsonResponse(command_responses.error(None, error), 400)
        try:
            # This connection receives no events. A client must not resume after events that it gets on another.
            return JsonResponse(
                command_responses.success(command.id, await execute(engine, found, command), applied_through=0)
            )
        except CommandError as error:
            return JsonResponse(command_responses.error(command.id, error))
