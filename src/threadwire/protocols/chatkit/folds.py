"""The items of a thread, shared by everything that needs them."""

from functools import partial

from threadwire.core.ids import Seq, ThreadId
from threadwire.engine.followers import Follower
from threadwire.engine.lifecycle import Engine
from threadwire.protocols.chatkit.agents import Agents
from threadwire.protocols.chatkit.encode import ChatKitEncoder
from threadwire.protocols.chatkit.wire import run_events


def _name(agents: Agents) -> str:
    """The name of the fold. It depends on the formats, so that items rendered by other formats are not reused."""
    return f"chatkit:{agents.formats().digest}"


async def current(engine: Engine, agents: Agents, thread_id: ThreadId) -> ChatKitEncoder:
    """The items as they are now. Other tasks feed them too, so read them before the next `await`. Raises `NotFound`."""
    make = partial(ChatKitEncoder, thread_id, agents.formats())
    return await engine.threads.fold(thread_id, _name(agents), make, run_events)


async def follow(engine: Engine, agents: Agents, thread_id: ThreadId, after: Seq) -> Follower:
    """The events of all runs after a position, in the form of `run_events`. Raises `NotFound`."""
    make = partial(ChatKitEncoder, thread_id, agents.formats())
    return await engine.threads.follow_fold(thread_id, _name(agents), make, run_events, after)
