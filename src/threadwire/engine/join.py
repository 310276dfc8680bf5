"""Joining a thread: the thread as it is, or what follows a cursor, and then everything that happens, to the end of the
active run or forever.

Joining writes nothing, and leaving affects no run. A protocol supplies the messages (`JoinVocabulary`). This module
decides which of them a client needs, and where its stream continues.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from threadwire.core.encoding import Encoder, Framing, Message
from threadwire.core.entries import START, Json
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run, Thread
from threadwire.engine.clock import Clock
from threadwire.engine.follow import Follower, Followers, Preamble
from threadwire.engine.log_queries import LogQueries, active_run
from threadwire.storage.abc import Storage

E = TypeVar("E", bound=Encoder)


class JoinEncoder(Encoder, Protocol):
    """An encoder that can describe the position it has reached. It has been primed with the active run."""

    def joined(self, base: Json) -> Sequence[Message]:
        """The messages that a client which joins here needs before the rest: the state, and the start of whatever is
        open. `base` is the thread's state before the active run, for a run that has no state yet. Empty if the encoder
        knows of no active run."""

    def reopened(self) -> Sequence[Message]:
        """The start of whatever is open, for a client that has everything else."""


class JoinVocabulary(Protocol):
    """The messages of one protocol for clients that join a thread."""

    @property
    def options(self) -> Hashable:
        """Streams of a run with equal options and framing share one encoder."""

    @property
    def framing(self) -> Framing: ...

    def run_encoder(self) -> JoinEncoder: ...

    def thread_encoder(self) -> JoinEncoder: ...

    def idle(self, thread: Thread | None) -> Sequence[Message]:
        """A thread without an active run, with its state. None is a thread that does not exist."""

    def up_to_date(self, thread: Thread) -> Sequence[Message]:
        """A thread without an active run, for a client that has its state."""


@dataclass(frozen=True, slots=True)
class Joined:
    """What is sent immediately, and what is streamed afterwards. A thread without an active run has no `rest`."""

    first: list[bytes]
    rest: Follower | None = None


class Joins:
    def __init__(self, storage: Storage, followers: Followers, clock: Clock) -> None:
        self._storage = storage
        self._followers = followers
        self._log = LogQueries(storage)
        self._clock = clock

    # -- what happens, without what was before ---------------------------------------------------------------------

    async def run(
        self, run: Run, options: Hashable, make_encoder: Callable[[], Encoder], framing: Framing, cursor: Seq | None
    ) -> Follower:
        """Follow a run after `cursor`, or from now if None. Raises `InvalidCursor`."""
        position = await self._followers.position(run.thread_id, cursor)
        return self._followers.follow(run, options, make_encoder, framing, position)

    async def thread(
        self,
        thread_id: ThreadId,
        options: Hashable,
        make_encoder: Callable[[], Encoder],
        framing: Framing,
        cursor: Seq | None,
    ) -> Follower:
        """Follow an existing thread across all its runs after `cursor`, or from now if None. Raises `InvalidCursor`."""
        return await self._followers.follow_thread(thread_id, options, make_encoder, framing, cursor)

    # -- the thread as it is, and what happens -----------------------------------------------------------------------

    async def forever(self, thread_id: ThreadId, vocabulary: JoinVocabulary, cursor: Seq | None = None) -> Follower:
        """Follow a thread across all its runs: what follows `cursor`, or else the thread as it is and what happens.

        The thread need not exist yet. The stream ends when the thread is deleted, but not before it has existed.
        """
        newest = await self._log.last(thread_id)
        # Read the thread after the position. Changes in between are then sent twice, which is harmless because a run
        # starts with its state. In the other order they would be lost.
        thread = await self._storage.threads.get(thread_id)
        encoder, preamble = vocabulary.thread_encoder(), None
        if cursor is None:
            cursor = newest
            render = partial(_current_state, vocabulary, encoder, thread)
            preamble = Preamble(await self._log.running_at(thread_id, newest), render)
        return await self._followers.follow_thread_unshared(
            thread_id, encoder, vocabulary.framing, cursor, preamble=preamble, exists=thread is not None
        )

    async def until_idle(self, thread_id: ThreadId, vocabulary: JoinVocabulary, cursor: Seq | None = None) -> Joined:
        """The thread as it is, or what follows `cursor`, up to the end of the active run. A cursor that the thread has
        not reached is ignored."""
        thread = await self._storage.threads.get(thread_id)
        if thread is None:
            return Joined(_frames(vocabulary, vocabulary.idle(None)))
        newest = await self._log.last(thread_id)
        active = await active_run(self._storage, thread_id, self._clock())
        if cursor is not None and START < cursor <= newest:
            resumption = _Resumption(self._storage, self._followers, vocabulary, thread, cursor, newest, active)
            return await resumption.joined()
        if active is not None:
            encoder = vocabulary.run_encoder()
            if (position := await self._prime(active, encoder)) is not None:
                first = _frames(vocabulary, encoder.joined(thread.values))
                return Joined(first, _rest_of_run(self._followers, vocabulary, active, position))
        thread = await self._storage.threads.get(thread_id)  # read again: a run may have ended meanwhile
        return Joined(_frames(vocabulary, vocabulary.idle(thread)))

    async def now(self, thread: Thread, make_encoder: Callable[[], E]) -> tuple[Thread, E | None]:
        """The thread as it is, and an encoder that was primed with its active run; None if no run is active."""
        active = await active_run(self._storage, thread.thread_id, self._clock())
        if active is None:
            return thread, None
        encoder = make_encoder()
        if await self._prime(active, encoder) is not None:
            return thread, encoder
        return await self._storage.threads.get(thread.thread_id) or thread, None

    async def _prime(self, run: Run, encoder: Encoder) -> Seq | None:
        """Prime an encoder with a run, and return the position it has reached; None if the run has ended."""
        position = await self._log.last(run.thread_id)
        return None if await self._log.prime(run, encoder, position) else position


@dataclass(frozen=True, slots=True)
class _Resumption:
    """A client returns with a cursor: it receives only what follows, up to the end of the active run."""

    storage: Storage
    followers: Followers
    vocabulary: JoinVocabulary
    thread: Thread
    cursor: Seq
    newest: Seq
    active: Run | None

    async def joined(self) -> Joined:
        log, thread_id = LogQueries(self.storage), self.thread.thread_id
        if (run_id := await log.run_at(thread_id, self.cursor)) is not None:
            return await self._rest_of_run_at_cursor(log, run_id)
        following = await log.next_effective(thread_id, self.cursor, self.newest)
        if following is not None and (self.active is None or following.run_id != self.active.run_id):
            return await self._rest_of_thread(self.cursor, following.run_id)
        if self.active is not None:
            return await self._rest_of_run(log, self.active)
        return Joined(_frames(self.vocabulary, self.vocabulary.up_to_date(self.thread)))

    async def _rest_of_run_at_cursor(self, log: LogQueries, run_id: RunId) -> Joined:
        """The rest of a run that had not ended at the cursor.

        Entries that other runs wrote in between are left out: a client that has only seen this run being queued was
        not sent the run before it, either.
        """
        run = await self.storage.runs.get(run_id)
        if run is not None and run.active:
            return await self._rest_of_run(log, run)
        following = await log.next_of_run(self.thread.thread_id, run_id, self.cursor)
        assert following is not None, "an inactive run has an end"
        return await self._rest_of_thread(Seq(following.seq - 1), run_id)

    async def _rest_of_run(self, log: LogQueries, run: Run) -> Joined:
        """The rest of a run, or all of it if the run was accepted after the cursor."""
        rest = _rest_of_run(self.followers, self.vocabulary, run, self.cursor)
        if self.cursor < run.queued_seq:
            return Joined([], rest)
        encoder = self.vocabulary.run_encoder()
        await log.prime(run, encoder, self.cursor)
        return Joined(_frames(self.vocabulary, encoder.reopened()), rest)

    async def _rest_of_thread(self, after: Seq, run_id: RunId | None) -> Joined:
        """Everything after a position, which lies in or before the run `run_id`."""
        encoder = self.vocabulary.thread_encoder()
        rest = await self.followers.follow_thread_unshared(
            self.thread.thread_id,
            encoder,
            self.vocabulary.framing,
            after,
            preamble=Preamble(run_id, lambda: _frames(self.vocabulary, encoder.reopened())),
            until=None if self.active is None else self.active.run_id,
            upto=self.newest if self.active is None else None,
        )
        return Joined([], rest)


def _rest_of_run(followers: Followers, vocabulary: JoinVocabulary, run: Run, after: Seq) -> Follower:
    return followers.follow(run, vocabulary.options, vocabulary.run_encoder, vocabulary.framing, after)


def _current_state(vocabulary: JoinVocabulary, encoder: JoinEncoder, thread: Thread | None) -> list[bytes]:
    joined = encoder.joined(None if thread is None else thread.values)
    return _frames(vocabulary, joined or vocabulary.idle(thread))


def _frames(vocabulary: JoinVocabulary, messages: Sequence[Message]) -> list[bytes]:
    """Frames of messages that belong to no entry."""
    return [vocabulary.framing(messages, None)] if messages else []
