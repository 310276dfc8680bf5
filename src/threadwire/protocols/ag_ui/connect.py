"""Connecting to a thread: what a page is shown that comes with nothing but the thread's id, or with a cursor besides.

It writes nothing, and leaving it touches no run.
"""

from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from threadwire.core.entries import Json
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run, Thread
from threadwire.engine.follow import Arrival
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
    newest = await engine.log.last(thread.thread_id)
    active = await engine.runs.active(thread.thread_id)
    if cursor is not None and 0 < cursor <= newest:
        return await _Resuming(engine, thread, options, cursor, newest, active).connection()
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
        if not await engine.log.prime(active, encoder, await engine.log.last(thread.thread_id)):
            return encoder.joined(thread.values)
        thread = await engine.threads.get(thread.thread_id)
    return settled(thread.values)


async def follow(engine: Engine, thread: Thread, options: Options) -> Watcher:
    """The thread as it is, then everything that happens on it."""
    newest = await engine.log.last(thread.thread_id)
    # Read after the position: what it has too much comes again, with a run that begins by telling its state. What it
    # had too little would be lost.
    thread = await engine.threads.get(thread.thread_id)
    encoder = ThreadEncoder(options)

    def as_it_is() -> bytes:
        if under_way := encoder.joined(thread.values):
            return frames(under_way)
        return _at_rest(options, thread, settled(thread.values))

    arrival = Arrival(await engine.log.running_at(thread.thread_id, newest), as_it_is)
    return await engine.runs.follow_thread_alone(thread.thread_id, encoder, newest, arrival=arrival)


async def _attach(engine: Engine, thread: Thread, options: Options, run: Run) -> Connection | None:
    """The thread as it is, then the rest of the run; None if that has ended meanwhile."""
    upto = await engine.log.last(thread.thread_id)
    encoder = RunEncoder(options)
    if await engine.log.prime(run, encoder, upto):
        return None
    first = frames([run_started(options.thread_id, run.run_id), *encoder.joined(thread.values)])
    return Connection(first, _rest_of(engine, run, options, upto))


@dataclass(frozen=True, slots=True)
class _Resuming:
    """A page comes back with a cursor: it is told what follows and nothing else, up to the end of the active run."""

    engine: Engine
    thread: Thread
    options: Options
    cursor: Seq
    newest: Seq
    active: Run | None

    async def connection(self) -> Connection:
        log, thread_id = self.engine.log, self.thread.thread_id
        if (run_id := await log.run_at(thread_id, self.cursor)) is not None:
            return await self._within(run_id)
        following = await log.next_effective(thread_id, self.cursor, self.newest)
        if following is not None and (self.active is None or following.run_id != self.active.run_id):
            return await self._over_many_runs(self.cursor, following.run_id)
        if self.active is not None:
            return await self._in_one_run(self.active)
        return Connection(_at_rest(self.options, self.thread, []))  # it has seen everything

    async def _within(self, run_id: RunId) -> Connection:
        """The cursor is of a run that had not ended there: the rest of it. What other runs wrote in between is left
        out: who was told only that a run waits was told nothing of the one before it, either."""
        run = await self.engine.runs.find(run_id)
        if run is not None and run.active:
            return await self._in_one_run(run)
        following = await self.engine.log.next_of_run(self.thread.thread_id, run_id, self.cursor)
        assert following is not None, "a run that is not active has ended"
        return await self._over_many_runs(Seq(following.seq - 1), run_id)

    async def _in_one_run(self, run: Run) -> Connection:
        """The rest of a run; with its beginning, if that was accepted after the cursor."""
        rest = _rest_of(self.engine, run, self.options, self.cursor)
        if self.cursor < run.queued_seq:
            return Connection(b"", rest)
        encoder = RunEncoder(self.options)
        await self.engine.log.prime(run, encoder, self.cursor)
        return Connection(frames([run_started(self.options.thread_id, run.run_id), *encoder.reopened()]), rest)

    async def _over_many_runs(self, after: Seq, run_id: RunId | None) -> Connection:
        """From a position on, in the run that goes on there."""
        encoder = ThreadEncoder(self.options)
        rest = await self.engine.runs.follow_thread_alone(
            self.thread.thread_id,
            encoder,
            after,
            arrival=Arrival(run_id, lambda: frames(encoder.reopened())),
            until=None if self.active is None else self.active.run_id,
            upto=self.newest if self.active is None else None,
        )
        return Connection(b"", rest)


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
