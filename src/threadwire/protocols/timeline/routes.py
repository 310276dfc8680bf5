"""The timeline over HTTP: a page, a stream, and answers to interrupts."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query
from pydantic import Field
from starlette.responses import Response

from threadwire.core.entries import parse_cursor
from threadwire.core.ids import parse_thread_id
from threadwire.engine.lifecycle import Engine
from threadwire.engine.shielding import run_to_completion
from threadwire.errors import NotFound
from threadwire.http.json_route import JsonRoute
from threadwire.http.problems import JsonResponse, Problem, Responses, error_responses, problem
from threadwire.http.sse import named_events
from threadwire.http.streaming import OpenStreams, event_stream
from threadwire.protocols.timeline.answering import submit
from threadwire.protocols.timeline.decode import MAX_FROZEN_BYTES, Submission
from threadwire.protocols.timeline.encode import first_message
from threadwire.protocols.timeline.submissions import Rejection
from threadwire.protocols.timeline.timelines import current, follow, last_page

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
        found = parse_thread_id(thread_id)
        if before is None:
            return JsonResponse(await last_page(engine, found, limit))
        fold = await current(engine, found)
        try:
            return JsonResponse(fold.page(limit, before))
        except KeyError:
            raise NotFound(f"Block {before[:200]!r} is not in this timeline") from None

    @router.get("/stream", responses=error_responses(400))
    async def follow_timeline(
        thread_id: str,
        limit: Limit = 100,
        after: Annotated[str | None, Query(description="Same as `Last-Event-ID`")] = None,
        last_event_id_in_query: Annotated[
            str | None, Query(alias="lastEventId", description="Same as `Last-Event-ID`")
        ] = None,
        last_event_id: Annotated[str | None, Header(alias="last-event-id")] = None,
    ) -> Response:
        found = parse_thread_id(thread_id)
        # An EventSource repeats its URL when it reconnects, so the header is always the newest position.
        sent = next((each for each in (last_event_id, last_event_id_in_query, after) if each is not None), None)
        if sent is not None:
            return event_stream(await follow(engine, found, parse_cursor(sent)), streams)
        page = await last_page(engine, found, limit)
        position, first = page["seq"], first_message(page)
        return event_stream(await follow(engine, found, position), streams, first=[named_events([first], position)])

    @router.put("/interrupts/{interrupt_id}", responses=_submission_errors())
    async def submit_widget(thread_id: str, interrupt_id: str, body: Annotated[Submission, Body()]) -> JsonResponse:
        if body.is_too_large:
            return problem(413, f"frozenValue: must be at most {MAX_FROZEN_BYTES} bytes of JSON")
        work = submit(engine, parse_thread_id(thread_id), interrupt_id, body)
        submitted = await run_to_completion(work)  # even if the client disconnects in between
        if isinstance(submitted, Rejection):
            return JsonResponse({"detail": submitted.reason, "interrupt": submitted.block}, 409)
        return JsonResponse(submitted.as_json())

    return router


class AnswerProblem(Problem):
    """The body of a 409."""

    interrupt: dict[str, Any] = Field(description="The interrupt's block, with the answer that won.")


def _submission_errors() -> Responses:
    return {**error_responses(400, 413), **error_responses(409, shape=AnswerProblem)}
