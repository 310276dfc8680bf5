"""The timeline over HTTP: a page, a stream, and answers to interrupts."""

from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from threadwire.core.entries import parse_cursor
from threadwire.core.ids import Seq, ThreadId, thread_id_from_name
from threadwire.engine.follow import Follower
from threadwire.engine.lifecycle import Engine
from threadwire.errors import NotFound
from threadwire.http.json_route import JsonRoute
from threadwire.http.problems import JsonResponse, error_responses
from threadwire.http.sse import named_events
from threadwire.http.streaming import OpenStreams, event_stream
from threadwire.protocols.timeline.encode import TimelineEncoder

MAX_PAGE = 1000

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many blocks to return")]


def timeline_routes(engine: Engine, streams: OpenStreams) -> APIRouter:
    router = APIRouter(
        prefix="/threads/{thread_id}/timeline",
        route_class=JsonRoute,
        default_response_class=JsonResponse,
        tags=["timeline"],
    )

    @router.get("")
    async def get_timeline(
        thread_id: str,
        limit: Limit = 100,
        before: Annotated[str | None, Query(description="The id of the block before which the page ends")] = None,
    ) -> JsonResponse:
        fold = await current_fold(engine, thread_id_from_name(thread_id))
        try:
            return JsonResponse(fold.page(limit, before))
        except KeyError:
            raise NotFound(f"Block {str(before)[:200]!r} is not in this timeline") from None

    @router.get("/stream", responses=error_responses(400))
    async def follow_timeline(
        thread_id: str,
        limit: Limit = 100,
        after: Annotated[str | None, Query(description="As `Last-Event-ID`")] = None,
        last_event_id_in_query: Annotated[
            str | None, Query(alias="lastEventId", description="As `Last-Event-ID`")
        ] = None,
        last_event_id: Annotated[str | None, Header(alias="last-event-id")] = None,
    ) -> Response:
        found = thread_id_from_name(thread_id)
        # An EventSource repeats its URL when it reconnects, so the header is always the newest position.
        sent = next((each for each in (last_event_id, last_event_id_in_query, after) if each is not None), None)
        if sent is not None:
            return event_stream(await _follow(engine, found, parse_cursor(sent)), streams)
        fold = await current_fold(engine, found)
        position, first = fold.timeline.seq, fold.snapshot(limit)
        return event_stream(await _follow(engine, found, position), streams, first=[named_events([first], position)])

    return router


async def _follow(engine: Engine, thread_id: ThreadId, after: Seq) -> Follower:
    return await engine.threads.follow_fold(thread_id, "timeline", TimelineEncoder, named_events, after)


async def current_fold(engine: Engine, thread_id: ThreadId) -> TimelineEncoder:
    return await engine.threads.fold(thread_id, "timeline", TimelineEncoder, named_events)
