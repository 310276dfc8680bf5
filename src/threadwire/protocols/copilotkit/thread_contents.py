"""Read-only views of a thread: its messages, its state, its events. No run is affected."""

from collections.abc import AsyncIterator
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.ids import Seq
from threadwire.core.json import dumps
from threadwire.core.records import Thread
from threadwire.engine.lifecycle import Engine
from threadwire.protocols.ag_ui.connect import snapshot
from threadwire.protocols.ag_ui.encode import Options
from threadwire.protocols.ag_ui.messages import Message
from threadwire.protocols.ag_ui.thread_encoder import ThreadEncoder
from threadwire.protocols.ag_ui.wire import Event
from threadwire.protocols.copilotkit.compaction import Compaction

MAX_RUNS = 100
"""Events are returned for at most this many runs, the newest ones."""


async def messages_of(engine: Engine, thread: Thread, options: Options) -> list[Json]:
    shown = [each for each in await snapshot(engine, thread, options) if each["type"] == "MESSAGES_SNAPSHOT"]
    return [_flat(message) for each in shown for message in each["messages"]]


async def state_of(engine: Engine, thread: Thread, options: Options) -> Json:
    """The state; None if the thread has none, or one that is not an object."""
    for each in await snapshot(engine, thread, options):
        if each["type"] == "STATE_SNAPSHOT" and isinstance(each["snapshot"], dict):
            return each["snapshot"]
    return None


async def events_of(engine: Engine, thread: Thread, options: Options) -> AsyncIterator[bytes]:
    """The JSON of the response, piece by piece: a long thread has many megabytes of events, and none of them is needed
    once it is sent."""
    separator = b'{"events":['
    async for page in _pages_of_events(engine, thread, options):
        if page:
            yield separator + dumps(page)[1:-1]
            separator = b","
    yield b"]}" if separator == b"," else separator + b"]}"


async def _pages_of_events(engine: Engine, thread: Thread, options: Options) -> AsyncIterator[list[Event]]:
    newest = await engine.log.last(thread.thread_id)
    runs = await engine.runs.list(thread.thread_id, limit=MAX_RUNS)
    after = Seq(min((run.queued_seq for run in runs), default=Seq(newest + 1)) - 1)
    if after >= newest:
        return
    compaction = Compaction()
    async for page in engine.log.replay(thread.thread_id, ThreadEncoder(options).events, after, newest):
        for events in page:
            compaction.feed(events)
        yield compaction.take()
    yield compaction.rest()


def _flat(message: Message) -> dict[str, Any]:
    """A message in CopilotKit's own format, which is flatter than AG-UI's."""
    flat: dict[str, Any] = {name: message[name] for name in ("id", "role", "content", "toolCallId") if name in message}
    if calls := message.get("toolCalls"):
        flat["toolCalls"] = [
            {"id": call["id"], "name": call["function"]["name"], "args": call["function"]["arguments"]}
            for call in calls
        ]
    return flat
