from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from threadwire.core.entries import START, parse_cursor
from threadwire.core.ids import thread_id_from_name
from threadwire.engine.lifecycle import Engine
from threadwire.http.json_route import JsonRoute
from threadwire.http.problems import JsonResponse, error_responses
from threadwire.http.sse import named_events
from threadwire.http.streaming import OpenStreams, event_stream
from ticker.encode import TickerEncoder


def ticker_routes(engine: Engine, streams: OpenStreams, kinds: frozenset[str]) -> APIRouter:
    router = APIRouter(prefix="/ticker", route_class=JsonRoute, default_response_class=JsonResponse, tags=["ticker"])

    @router.get("/{thread_id}", responses=error_responses(400))
    async def follow_ticks(
        thread_id: str, last_event_id: Annotated[str | None, Header(alias="last-event-id")] = None
    ) -> Response:
        thread = await engine.threads.get(thread_id_from_name(thread_id))
        cursor = START if last_event_id is None else parse_cursor(last_event_id)
        follower = await engine.joins.thread(
            thread.thread_id, ("ticker", kinds), partial(TickerEncoder, kinds), named_events, cursor
        )
        return event_stream(follower, streams)

    return router
