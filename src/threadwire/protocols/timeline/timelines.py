"""The timeline of a thread, shared by everything that needs it."""

from threadwire.core.ids import Seq, ThreadId
from threadwire.engine.follow import Follower
from threadwire.engine.lifecycle import Engine
from threadwire.http.sse import named_events
from threadwire.protocols.timeline.encode import TimelineEncoder

_NAME = "timeline"


async def current(engine: Engine, thread_id: ThreadId) -> TimelineEncoder:
    """The timeline as it is now. Others feed it too: use it without awaiting. Raises `NotFound`."""
    return await engine.threads.fold(thread_id, _NAME, TimelineEncoder, named_events)


async def follow(engine: Engine, thread_id: ThreadId, after: Seq) -> Follower:
    """The changes after a position. Raises `NotFound` and `InvalidCursor`."""
    return await engine.threads.follow_fold(thread_id, _NAME, TimelineEncoder, named_events, after)
