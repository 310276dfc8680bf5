"""Connecting to a thread: what a client receives that has only the thread's id, or a cursor as well.

Connecting writes nothing, and disconnecting affects no run.
"""

from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from threadwire.core.entries import Json
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run, Thread
from threadwire.engine.follow import Preamble
from threadwire.engine.lifecycle import Engine
from threadwire.errors import NotFound
from threadwire.http.sse import unnamed_events
from threadwire.http.streaming import FrameSource
from threadwire.protocols.ag_ui.encode import Options, RunEncoder, snapshot_events
from threadwire.protocols.ag_ui.thread_encoder import ThreadEncoder
from threadwire.protocols.ag_ui.wire import (
    Event,
    encoded,
    interrupt_outcome,
    legacy_interrupts,
    run_finished,
    run_started,
)


@dataclass(frozen=True, slots=True)
class Connection:
    """What is sent immediately, and what is streamed afterwards. An idle thread has no `rest`."""

    first: list[bytes]
    rest: FrameSource | None = None


async def connect(engine: Engine, thread: Thread, options: Options, cursor: Seq | None) -> Connection:
    newest = await engine.log.last(thread.thread_id)
    active = await engine.runs.active(thread.thread_id)
    if cursor is not None and 0 < cursor <= newest:
        return await _Resumption(engine, thread, options, cursor, newest, active).connection()
    if active is not None and (attached := await _attach(engine, thread, options, active)) is not None:
        return attached
    thread = await engine.threads.get(thread.thread_id)  # read again: a run may have ended meanwhile
    return Connection(_idle(options, thread, snapshot_events(thread.values)))


def empty(options: Options) -> Connection:
    """The connection to a thread that has no runs and need not exist."""
    run_id = str(uuid4())
    return Connection(_frames([run_started(options.thread_id, run_id), run_finished(options.thread_id, run_id)]))


async def rejection(engine: Engine, thread_id: ThreadId, options: Options, reason: Event) -> list[bytes]:
    """The frames for a rejected request: the thread's current state, then the reason.

    The client has missed something, and a client that takes an interrupt as open does nothing else until it learns
    that the interrupt is closed.
    """
    try:
        thread = await engine.threads.get(thread_id)
    except NotFound:
        return _frames([reason])
    if await engine.runs.active(thread_id) is not None:
        return _frames([reason])
    return _idle(options, thread, snapshot_events(thread.values)) + _frames([reason])


async def snapshot(engine: Engine, thread: Thread, options: Options) -> list[Event]:
    """The thread's current state and messages, including messages that are still being streamed."""
    active = await engine.runs.active(thread.thread_id)
    if active is not None:
        encoder = RunEncoder(options)
        if not await engine.log.prime(active, encoder, await engine.log.last(thread.thread_id)):
            return encoder.join_events(thread.values)
        thread = await engine.threads.get(thread.thread_id)
    return snapshot_events(thread.values)


async def follow(engine: Engine, thread: Thread, options: Options) -> FrameSource:
    """The thread's current state, then everything that happens on it."""
    newest = await engine.log.last(thread.thread_id)
    # Read the thread after the position. Changes in between are then sent twice, which is harmless because a run starts
    # with its state. In the other order they would be lost.
    thread = await engine.threads.get(thread.thread_id)
    encoder = ThreadEncoder(options)

    def current_state() -> list[bytes]:
        if events := encoder.join_events(thread.values):
            return _frames(events)
        return _idle(options, thread, snapshot_events(thread.values))

    preamble = Preamble(await engine.log.running_at(thread.thread_id, newest), current_state)
    return await engine.runs.follow_thread_unshared(
        thread.thread_id, encoder, unnamed_events, newest, preamble=preamble
    )


async def _attach(engine: Engine, thread: Thread, options: Options, run: Run) -> Connection | None:
    """The thread's current state, then the rest of the run; None if the run has ended meanwhile."""
    upto = await engine.log.last(thread.thread_id)
    encoder = RunEncoder(options)
    if await engine.log.prime(run, encoder, upto):
        return None
    first = _frames([run_started(options.thread_id, run.run_id), *encoder.join_events(thread.values)])
    return Connection(first, _rest_of(engine, run, options, upto))


@dataclass(frozen=True, slots=True)
class _Resumption:
    """A client reconnects with a cursor: it receives only what follows, up to the end of the active run."""

    engine: Engine
    thread: Thread
    options: Options
    cursor: Seq
    newest: Seq
    active: Run | None

    async def connection(self) -> Connection:
        log, thread_id = self.engine.log, self.thread.thread_id
        if (run_id := await log.run_at(thread_id, self.cursor)) is not None:
            return await self._rest_of_run_at_cursor(run_id)
        following = await log.next_effective(thread_id, self.cursor, self.newest)
        if following is not None and (self.active is None or following.run_id != self.active.run_id):
            return await self._rest_of_thread(self.cursor, following.run_id)
        if self.active is not None:
            return await self._rest_of_run(self.active)
        return Connection(_idle(self.options, self.thread, []))  # the client has everything

    async def _rest_of_run_at_cursor(self, run_id: RunId) -> Connection:
        """The rest of a run that had not ended at the cursor.

        Entries that other runs wrote in between are left out: a client that has only seen this run being queued was
        not sent the run before it, either.
        """
        run = await self.engine.runs.find(run_id)
        if run is not None and run.active:
            return await self._rest_of_run(run)
        following = await self.engine.log.next_of_run(self.thread.thread_id, run_id, self.cursor)
        assert following is not None, "an inactive run has an end"
        return await self._rest_of_thread(Seq(following.seq - 1), run_id)

    async def _rest_of_run(self, run: Run) -> Connection:
        """The rest of a run, or all of it if the run was accepted after the cursor."""
        rest = _rest_of(self.engine, run, self.options, self.cursor)
        if self.cursor < run.queued_seq:
            return Connection([], rest)
        encoder = RunEncoder(self.options)
        await self.engine.log.prime(run, encoder, self.cursor)
        return Connection(_frames([run_started(self.options.thread_id, run.run_id), *encoder.reopen_events()]), rest)

    async def _rest_of_thread(self, after: Seq, run_id: RunId | None) -> Connection:
        """Everything after a position, which lies in or before the run `run_id`."""
        encoder = ThreadEncoder(self.options)
        rest = await self.engine.runs.follow_thread_unshared(
            self.thread.thread_id,
            encoder,
            unnamed_events,
            after,
            preamble=Preamble(run_id, lambda: _frames(encoder.reopen_events())),
            until=None if self.active is None else self.active.run_id,
            upto=self.newest if self.active is None else None,
        )
        return Connection([], rest)


def _rest_of(engine: Engine, run: Run, options: Options, after: Seq) -> FrameSource:
    return engine.runs.follow(run, options, partial(RunEncoder, options), unnamed_events, after)


def _idle(options: Options, thread: Thread, events: list[Event]) -> list[bytes]:
    """Events of an idle thread, wrapped in a synthetic run because clients accept events only inside a run."""
    run_id = str(uuid4())
    interrupts: list[Json] = [each for of_task in thread.interrupts.values() for each in of_task]
    outcome = interrupt_outcome(interrupts) if options.interrupt_outcome else None
    return _frames(
        [
            run_started(options.thread_id, run_id),
            *events,
            *legacy_interrupts(interrupts),
            run_finished(options.thread_id, run_id, outcome),
        ]
    )


def _frames(events: list[Event]) -> list[bytes]:
    return [unnamed_events(encoded(events), None)] if events else []
