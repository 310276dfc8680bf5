"""The timeline of a thread, shared by everything that needs it."""

from threadwire.core.ids import Seq, ThreadId
from threadwire.engine.followers import Follower
from threadwire.engine.lifecycle import Engine
from threadwire.http.sse import named_events
from threadwire.protocols.timeline.encode import Page, TimelineEncoder, page_of_summary

_NAME = "timeline"


async def current(engine: Engine, thread_id: ThreadId) -> TimelineEncoder:
    """The timeline as it is now. Other tasks feed it too, so read it before the next `await`. Raises `NotFound`."""
    return await engine.threads.fold(thread_id, _NAME, TimelineEncoder, named_events)


async def last_page(engine: Engine, thread_id: ThreadId, limit: int) -> Page:
    """The last page as it is now, including external changes. Encode it before the next `await`. Raises `NotFound` and
    `StorageError`."""
    await engine.external_changes.record(thread_id)
    summary = await engine.threads.fold_summary(thread_id, _NAME, named_events)
    if summary is not None and (page := page_of_summary(summary, limit)) is not None:
        return page
    return (await current(engine, thread_id)).page(limit)


async def follow(engine: Engine, thread_id: ThreadId, after: Seq) -> Follower:
    """The changes after a position. External changes follow within seconds. Raises `NotFound` and `InvalidCursor`."""
    return await engine.threads.follow_fold(thread_id, _NAME, TimelineEncoder, named_events, after)
