"""Joining a thread. A client that joins receives the thread as it is, or what follows its cursor. After that it
receives everything that happens, until the active run ends or indefinitely.

Joining writes nothing, and leaving affects no run. A protocol supplies the messages (`JoinVocabulary`). This module
decides which of them a client needs, and where its stream continues.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from threadwire.core.access_filter import AccessFilter
from threadwire.core.encoder import Encoder, Framing, Message
from threadwire.core.entries import START, Json, check_cursor
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run, Thread
from threadwire.engine.access import allowed
from threadwire.engine.clock import Clock
from threadwire.engine.external_changes import ExternalChanges
from threadwire.engine.followers import Follower, Followers, Preamble
from threadwire.engine.log_queries import LogQueries, active_run
from threadwire.storage.abc import Storage

E = TypeVar("E", bound=Encoder)


class JoinEncoder(Encoder, Protocol):
    """An encoder that can describe the position it has reached. It has been primed with the active run."""

    def joined(self, base: Json) -> Sequence[Message]:
        """The messages that a client needs first when it joins here: the state, and the start of whatever is open.
        `base` is the thread's state before the active run, for a run that has no state yet. The result is empty if the
        encoder knows of no active run."""

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

    def idle(self, thread: Thread | None, failed: Run | None = None) -> Sequence[Message]:
        """The messages for a thread without an active run, including its state. `thread` is None if it does not exist.
        `failed` is the thread's last run, if it failed."""

    def up_to_date(self, thread: Thread) -> Sequence[Message]:
        """The messages for a thread without an active run, for a client that already has its state."""


@dataclass(frozen=True, slots=True)
class Joined:
    """What is sent immediately, and what is streamed afterwards. A thread without an active run has no `rest`."""

    first: list[bytes]
    rest: Follower | None = None


class Joins:
    def __init__(
        self, storage: Storage, followers: Followers, clock: Clock, external_changes: ExternalChanges | None = None
    ) -> None:
        self._storage = storage
        self._followers = followers
        self._log = LogQueries(storage)
        self._clock = clock
        self._external_changes = external_changes

    # -- only what happens after a position ------------------------------------------------------------------------

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

    async def thread_or_future(
        self,
        thread_id: ThreadId,
        options: Hashable,
        make_encoder: Callable[[], Encoder],
        framing: Framing,
        cursor: Seq,
    ) -> Follower:
        """Follow a thread across all its runs after `cursor`. If the thread does not exist yet, wait for it. Raises
        `InvalidCursor`."""
        access = await allowed("threads", "read", {"thread_id": thread_id})
        if await self._storage.threads.get(thread_id, with_state=False, access=access) is not None:
            return await self.thread(thread_id, options, make_encoder, framing, cursor)
        check_cursor(cursor, START if access else await self._log.last(thread_id))
        return await self._followers.follow_thread_unshared(
            thread_id, make_encoder(), framing, cursor, exists=False, access=access
        )

    async def past(self, thread_id: ThreadId, encoder: Encoder, framing: Framing, cursor: Seq, upto: Seq) -> Follower:
        """The entries of a thread after `cursor` up to the existing entry `upto`. The stream ends there. Raises
        `InvalidCursor`."""
        end = await self.end_of(thread_id)
        check_cursor(cursor, end)
        return await self._followers.follow_thread_unshared(thread_id, encoder, framing, cursor, upto=min(upto, end))

    async def end_of(self, thread_id: ThreadId) -> Seq:
        """The position of the thread's last entry; `START` if there is none, or if the thread is foreign."""
        access = await allowed("threads", "read", {"thread_id": thread_id})
        if access and await self._storage.threads.get(thread_id, with_state=False, access=access) is None:
            return START
        return await self._log.last(thread_id)

    # -- the thread as it is, then what happens ------------------------------------------------------------------------

    async def forever(self, thread_id: ThreadId, vocabulary: JoinVocabulary, cursor: Seq | None = None) -> Follower:
        """Follow a thread across all its runs, after `cursor` or, if None, starting with the thread as it is. If the
        thread does not exist yet, wait for it. The stream ends when the thread is deleted.
        """
        access = await allowed("threads", "read", {"thread_id": thread_id})
        if access and await self._storage.threads.get(thread_id, with_state=False, access=access) is None:
            return await self._future(thread_id, vocabulary, access, cursor)
        await self._record_external_changes(thread_id)
        newest = await self._log.last(thread_id)
        # Read the thread after the position. Changes in between are then sent twice, which is harmless because a run
        # starts with its state. In the other order they would be lost.
        thread = await self._storage.threads.get(thread_id)
        encoder, preamble = vocabulary.thread_encoder(), None
        if cursor is None:
            cursor = newest
            render = partial(_current_state, vocabulary, encoder, thread, await self.failed_run(thread))
            preamble = Preamble(await self._log.running_at(thread_id, newest), render)
        return await self._followers.follow_thread_unshared(
            thread_id, encoder, vocabulary.framing, cursor, preamble=preamble, exists=thread is not None
        )

    async def _future(
        self, thread_id: ThreadId, vocabulary: JoinVocabulary, access: AccessFilter, cursor: Seq | None
    ) -> Follower:
        """Follow a thread that does not exist or is foreign to the caller. Nothing of a foreign thread is read."""
        encoder, preamble = vocabulary.thread_encoder(), None
        if cursor is None:
            preamble = Preamble(None, partial(_current_state, vocabulary, encoder, None, None))
        return await self._followers.follow_thread_unshared(
            thread_id, encoder, vocabulary.framing, START, preamble=preamble, exists=False, access=access
        )

    async def until_idle(self, thread_id: ThreadId, vocabulary: JoinVocabulary, cursor: Seq | None = None) -> Joined:
        """The thread as it is, or what follows `cursor`, up to the end of the active run. A cursor that the thread has
        not reached is ignored."""
        access = await allowed("threads", "read", {"thread_id": thread_id})
        if access and await self._storage.threads.get(thread_id, with_state=False, access=access) is None:
            return Joined(_frames(vocabulary, vocabulary.idle(None)))
        await self._record_external_changes(thread_id)
        thread = await self._storage.threads.get(thread_id, access=access)
        if thread is None:
            return Joined(_frames(vocabulary, vocabulary.idle(None)))
        newest = await self._log.last(thread_id)
        active = await active_run(self._storage, thread_id, self._clock())
        if cursor is not None and START < cursor <= newest:
            resumption = _Resumption(
                self._storage, self._log, self._followers, vocabulary, thread, cursor, newest, active
            )
            return await resumption.joined()
        if active is not None:
            encoder = vocabulary.run_encoder()
            if (position := await self._prime(active, encoder)) is not None:
                first = _frames(vocabulary, encoder.joined(thread.values))
                return Joined(first, _rest_of_run(self._followers, vocabulary, active, position))
        thread = await self._storage.threads.get(thread_id)  # read again: a run may have ended meanwhile
        return Joined(_frames(vocabulary, vocabulary.idle(thread, await self.failed_run(thread))))

    async def failed_run(self, thread: Thread | None) -> Run | None:
        """The last run of a thread, if it failed."""
        if thread is None or thread.status != "error":
            return None
        last = await self._storage.runs.list(thread.thread_id, limit=1)
        return last[0] if last and last[0].status in ("error", "timeout") else None

    async def now(self, thread: Thread, make_encoder: Callable[[], E]) -> tuple[Thread, E | None]:
        """The thread as it is, and an encoder that was primed with its active run; None if no run is active."""
        active = await active_run(self._storage, thread.thread_id, self._clock())
        if active is None:
            return thread, None
        encoder = make_encoder()
        if await self._prime(active, encoder) is not None:
            return thread, encoder
        return await self._storage.threads.get(thread.thread_id) or thread, None

    async def _record_external_changes(self, thread_id: ThreadId) -> None:
        if self._external_changes is not None:
            await self._external_changes.record(thread_id)

    async def _prime(self, run: Run, encoder: Encoder) -> Seq | None:
        """Prime an encoder with a run, and return the position it has reached; None if the run has ended."""
        position = await self._log.last(run.thread_id)
        return None if await self._log.prime(run, encoder, position) else position


@dataclass(frozen=True, slots=True)
class _Resumption:
    """A client returns with a cursor: it receives only what follows, up to the end of the active run."""

    storage: Storage
    log: LogQueries
    followers: Followers
    vocabulary: JoinVocabulary
    thread: Thread
    cursor: Seq
    newest: Seq
    active: Run | None

    async def joined(self) -> Joined:
        thread_id = self.thread.thread_id
        if (run_id := await self.log.run_at(thread_id, self.cursor)) is not None:
            return await self._rest_of_run_at_cursor(run_id)
        following = await self.log.next_effective(thread_id, self.cursor, self.newest)
        if following is not None and (self.active is None or following.run_id != self.active.run_id):
            return await self._rest_of_thread(self.cursor, following.run_id)
        if self.active is not None:
            return await self._rest_of_run(self.active)
        return Joined(_frames(self.vocabulary, self.vocabulary.up_to_date(self.thread)))

    async def _rest_of_run_at_cursor(self, run_id: RunId) -> Joined:
        """The rest of a run that had not ended at the cursor.

        Entries that other runs wrote in between are left out. For example, the cursor may be this run's `run.queued`
        entry, written while an earlier run was still active. The client did not follow that run.
        """
        run = await self.storage.runs.get(run_id)
        if run is not None and run.active:
            return await self._rest_of_run(run)
        following = await self.log.next_of_run(self.thread.thread_id, run_id, self.cursor)
        assert following is not None, "an inactive run has a `run.ended` entry"
        return await self._rest_of_thread(Seq(following.seq - 1), run_id)

    async def _rest_of_run(self, run: Run) -> Joined:
        """The rest of a run, or all of it if the run was accepted after the cursor."""
        rest = _rest_of_run(self.followers, self.vocabulary, run, self.cursor)
        if self.cursor < run.queued_seq:
            return Joined([], rest)
        encoder = self.vocabulary.run_encoder()
        await self.log.prime(run, encoder, self.cursor)
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


def _current_state(
    vocabulary: JoinVocabulary, encoder: JoinEncoder, thread: Thread | None, failed: Run | None
) -> list[bytes]:
    joined = encoder.joined(None if thread is None else thread.values)
    return _frames(vocabulary, joined or vocabulary.idle(thread, failed))


def _frames(vocabulary: JoinVocabulary, messages: Sequence[Message]) -> list[bytes]:
    """Frames of messages that belong to no entry."""
    return [vocabulary.framing(messages, None)] if messages else []
