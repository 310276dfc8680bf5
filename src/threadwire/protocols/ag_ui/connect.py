"""Connecting to a thread: what a page is shown that comes with nothing but the thread's id, or with a cursor besides.

It writes nothing, and leaving it touches no run.
"""

from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from threadwire.core.entries import Json
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import Run, Thread
from threadwire.engine.lifecycle import Engine
from threadwire.errors import NotFound
from threadwire.http.streaming import Watcher
from threadwire.protocols.ag_ui.encode import Options, RunEncoder, settled
from threadwire.protocols.ag_ui.thread import ThreadEncoder
from threadwire.protocols.ag_ui.wire import (
    Event,
    frames,
    interrupt_outcome,
    legacy_interrupts,
    run_finished,
    run_started,
)


@dataclass(frozen=True, slots=True)
class Connection:
    """What is sent at once, and what is followed then; nothing is, if the thread is at rest."""

    first: bytes
    rest: Watcher | None = None


async def connect(engine: Engine, thread: Thread, options: Options, cursor: Seq | None) -> Connection:
    newest = await engine.runs.newest(thread.thread_id)
    active = await engine.runs.active(thread.thread_id)
    if cursor is not None and 0 < cursor <= newest:
        return await _resume(engine, thread, options, cursor, newest, active)
    if active is not None and (attached := await _attach(engine, thread, options, active)) is not None:
        return attached
    thread = await engine.threads.get(thread.thread_id)  # as it is now, if a run has ended meanwhile
    return Connection(_at_rest(options, thread, settled(thread.values)))


def empty(options: Options) -> Connection:
    """A thread on which nothing has happened, and that need not exist."""
    run_id = str(uuid4())
    return Connection(frames([run_started(options.thread_id, run_id), run_finished(options.thread_id, run_id)]))


async def refused(engine: Engine, thread_id: ThreadId, options: Options, reason: Event) -> bytes:
    """Why what a page asks for is refused, after the thread as it is: the page has missed something, and clients that
    take an interrupt for open do nothing else before they hear that it is not."""
    try:
        thread = await engine.threads.get(thread_id)
    except NotFound:
        return frames([reason])
    if await engine.runs.active(thread_id) is not None:
        return frames([reason])
    return _at_rest(options, thread, settled(thread.values)) + frames([reason])


async def snapshot(engine: Engine, thread: Thread, options: Options) -> list[Event]:
    """The thread's state and messages as they are now, with what is being said."""
    active = await engine.runs.active(thread.thread_id)
    if active is not None:
        encoder = RunEncoder(options)
        if not await engine.runs.primed(active, encoder, await engine.runs.newest(thread.thread_id)):
            return encoder.joined(thread.values)
        thread = await engine.threads.get(thread.thread_id)
    return settled(thread.values)


async def follow(engine: Engine, thread: Thread, options: Options) -> Watcher:
    """The thread as it is, then everything that happens on it."""
    newest = await engine.runs.newest(thread.thread_id)
    # Read after the position: what it has too much comes again, with a run that begins by telling its state. What it
    # had too little would be lost.
    thread = await engine.threads.get(thread.thread_id)
    encoder = ThreadEncoder(options)

    def as_it_is() -> bytes:
        if under_way := encoder.joined(thread.values):
            return frames(under_way)
        return _at_rest(options, thread, settled(thread.values))

    return await engine.runs.follow_thread(thread.thread_id, encoder, newest, greet=as_it_is)


async def _attach(engine: Engine, thread: Thread, options: Options, run: Run) -> Connection | None:
    """The thread as it is, then the rest of the run; None if that has ended meanwhile."""
    upto = await engine.runs.newest(thread.thread_id)
    encoder = RunEncoder(options)
    if await engine.runs.primed(run, encoder, upto):
        return None
    first = frames([run_started(options.thread_id, run.run_id), *encoder.joined(thread.values)])
    return Connection(first, _rest_of(engine, run, options, upto))


async def _resume(
    engine: Engine, thread: Thread, options: Options, cursor: Seq, newest: Seq, active: Run | None
) -> Connection:
    """What follows the cursor and nothing else, up to the end of the active run."""
    if cursor < newest:
        encoder = ThreadEncoder(options)
        rest = await engine.runs.follow_thread(
            thread.thread_id,
            encoder,
            cursor,
            greet=lambda: frames(encoder.reopened()),
            until=None if active is None else active.run_id,
            upto=newest if active is None else None,
        )
        return Connection(b"", rest)
    if active is None:  # it has seen everything
        return Connection(_at_rest(options, thread, []))
    primed = RunEncoder(options)
    await engine.runs.primed(active, primed, cursor)
    first = frames([run_started(options.thread_id, active.run_id), *primed.reopened()])
    return Connection(first, _rest_of(engine, active, options, cursor))


def _rest_of(engine: Engine, run: Run, options: Options, after: Seq) -> Watcher:
    return engine.runs.follow(run, options, partial(RunEncoder, options), after)


def _at_rest(options: Options, thread: Thread, told: list[Event]) -> bytes:
    """A run made up around what is told of a thread on which nothing happens; pages know no other way."""
    run_id = str(uuid4())
    asked: list[Json] = [each for of_task in thread.interrupts.values() for each in of_task]
    return frames(
        [
            run_started(options.thread_id, run_id),
            *told,
            *legacy_interrupts(asked),
            run_finished(options.thread_id, run_id, interrupt_outcome(asked) if options.interrupt_outcome else None),
        ]
    )
