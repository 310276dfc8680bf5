"""Following a thread's events, even before the thread exists."""

from collections.abc import Iterable
from functools import partial

from threadwire.core.encoder import Framing
from threadwire.core.ids import Seq, ThreadId
from threadwire.engine.followers import Follower
from threadwire.engine.lifecycle import Engine
from threadwire.protocols.langgraph.thread_wire.encode import ThreadWireEncoder
from threadwire.protocols.langgraph.thread_wire.subscription import Subscription


async def follow(
    engine: Engine, thread_id: ThreadId, subscriptions: Iterable[Subscription], after: Seq, framing: Framing
) -> Follower:
    """The events of any of the subscriptions after a position, each of them once. Raises `InvalidCursor`."""
    wanted = frozenset(subscriptions)
    make_encoder = partial(ThreadWireEncoder, *wanted)
    return await engine.joins.thread_or_future(thread_id, ("thread wire", wanted), make_encoder, framing, after)
