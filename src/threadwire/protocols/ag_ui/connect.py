"""What clients receive when they join a thread, with only its id or with a cursor as well."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from threadwire.core.encoder import Framing, Message
from threadwire.core.entries import Json
from threadwire.core.ids import ThreadId
from threadwire.core.records import Run, Thread
from threadwire.engine.lifecycle import Engine
from threadwire.errors import NotFound
from threadwire.http.sse import unnamed_events
from threadwire.protocols.ag_ui.encode import Options, RunEncoder, snapshot_events
from threadwire.protocols.ag_ui.thread_encoder import ThreadEncoder
from threadwire.protocols.ag_ui.wire import (
    Event,
    encoded,
    interrupt_outcome,
    legacy_interrupts,
    run_failed,
    run_finished,
    run_started,
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The messages of AG-UI for joining a thread."""

    options: Options

    @property
    def framing(self) -> Framing:
        return unnamed_events

    def run_encoder(self) -> RunEncoder:
        return RunEncoder(self.options)

    def thread_encoder(self) -> ThreadEncoder:
        return ThreadEncoder(self.options)

    def idle(self, thread: Thread | None, failed: Run | None = None) -> Sequence[Message]:
        events = snapshot_events(None if thread is None else thread.values)
        if failed is not None:
            events.append(run_failed(failed.run_id, failed.error))
        return encoded(_idle(self.options, thread, events))

    def up_to_date(self, thread: Thread) -> Sequence[Message]:
        return encoded(_idle(self.options, thread, []))


async def rejection(engine: Engine, thread_id: ThreadId, options: Options, reason: Event) -> Sequence[Message]:
    """The messages for a rejected request: the thread's current state, then the reason.

    The client has missed something. As long as it believes that an interrupt is open, it does nothing else.
    """
    try:
        thread = await engine.threads.get(thread_id)
    except NotFound:
        return encoded([reason])
    if await engine.runs.active(thread_id) is not None:
        return encoded([reason])
    return [*Vocabulary(options).idle(thread), *encoded([reason])]


async def snapshot(engine: Engine, thread: Thread, options: Options) -> list[Event]:
    """The thread's current state and messages, including messages that are still being streamed. Empty for a thread
    that has no state."""
    thread, encoder = await engine.joins.now(thread, partial(RunEncoder, options))
    if encoder is not None:
        return encoder.join_events(thread.values)
    return [] if thread.values is None else snapshot_events(thread.values)


def _idle(options: Options, thread: Thread | None, events: list[Event]) -> list[Event]:
    """Events of an idle thread, wrapped in a synthetic run because clients accept events only inside a run."""
    run_id = str(uuid4())
    interrupts: list[Json] = [] if thread is None else [each for task in thread.interrupts.values() for each in task]
    outcome = interrupt_outcome(interrupts) if options.interrupt_outcome else None
    return [
        run_started(options.thread_id, run_id),
        *events,
        *legacy_interrupts(interrupts),
        run_finished(options.thread_id, run_id, outcome),
    ]
