"""Following a run, or a thread across many runs: replay, then live, from one cursor. There is no separate live path.

A *follower* is one subscriber: a cursor into the frames of a shared projection. A subscriber whose cursor lies before
the frames that are still retained gets a replay of its own until it has caught up. A subscriber that supplies its own
encoder always gets its own replay.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import partial
from types import TracebackType
from typing import NamedTuple

import anyio

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.encoder import Encoder, Framing
from threadwire.core.entries import START, check_cursor
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.engine.entry_readers import RunEntries, ThreadEntries
from threadwire.engine.projections import Projection, Reader, Replay
from threadwire.engine.sized_cache import SizedCache
from threadwire.engine.thread_folds import F, ThreadFolds, WholeThreadEntries
from threadwire.storage.abc import Log, Storage, Wakeup

MAX_PROJECTIONS = 64
"""How many projections are cached for subscribers that may return. Projections in use stay alive even outside the
cache."""
MAX_CACHED_BYTES = 32 * 1024 * 1024
"""Bytes of frames that the cached projections retain together."""
UNUSED_SECONDS = 15.0
"""Seconds after which a projection without subscribers is dropped; it may take up to twice as long. Subscribers that
reconnect usually do so sooner. Objects that stay longer prevent the memory around them from being returned to the
operating system."""
POLL = 5.0
"""Seconds after which a follower reads the log even without a wakeup (spec 3.3)."""

MakeReader = Callable[[Seq], Reader]
"""Returns a reader with a new encoder for a subscriber at the given position."""


class Follower(ABC):
    """One subscriber of one run or thread: a context manager with a `next`. Kept small, because every open stream has
    one."""

    __slots__ = ("_cursor", "_deletion_reported", "_open", "_wakeup", "_watch", "thread_id")

    def __init__(self, log: Log, thread_id: ThreadId, after: Seq, open_followers: "set[Follower]") -> None:
        self._cursor = after
        self._open = open_followers
        self.thread_id = thread_id
        self._watch = log.watch(thread_id)
        self._wakeup: Wakeup | None = None
        self._deletion_reported = False

    def __enter__(self) -> "Follower":
        # Watch before the first read, or an entry written between the two would be missed (spec 3.2).
        self._wakeup = self._watch.__enter__()
        self._open.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.discard(self)
        self._watch.__exit__(kind, error, trace)

    async def next(self, timeout: float) -> list[bytes] | None:
        """Return the frames of the next entries, one item per entry; an empty list if none arrive within `timeout`
        seconds; None after the end."""
        assert self._wakeup is not None, "use a follower inside its `with` block"
        now = asyncio.get_running_loop().time
        until = now() + timeout
        while True:
            frames, ended = await self._more()
            if frames:
                return frames
            if ended:
                return self._report_deletion()
            if (left := until - now()) <= 0:
                return []
            if not await self._wakeup.wait(min(left, POLL)):
                await self._check_deleted()

    def _report_deletion(self) -> list[bytes] | None:
        """Return the frames for a deleted thread, once. None if there are none: the stream has ended."""
        frames = [] if self._deletion_reported else self._deletion_frames()
        self._deletion_reported = True
        return frames or None

    @property
    def position(self) -> Seq:
        """The entry up to which `next` has returned the frames."""
        return self._cursor

    @property
    def finished(self) -> bool:
        """Whether `next` has returned the last frames."""
        return self._at_end and (self._deletion_reported or not self._deletion_frames())

    @property
    @abstractmethod
    def _at_end(self) -> bool:
        """Whether `next` has returned the frames of the last entry."""

    @abstractmethod
    def _deletion_frames(self) -> list[bytes]:
        """Return what a subscriber receives if its thread was deleted; nothing otherwise."""

    @property
    def projection(self) -> Projection | None:
        """The projection that it shares with others, if any."""
        return None

    @abstractmethod
    async def _more(self) -> tuple[list[bytes], bool]:
        """Return the frames available now, and whether they are the last."""

    @abstractmethod
    async def _check_deleted(self) -> None:
        """Check whether the thread was deleted, possibly by another process."""


class SharedFollower(Follower):
    """A subscriber that shares a projection with others."""

    __slots__ = ("_make_reader", "_projection", "_replay")

    def __init__(
        self,
        log: Log,
        thread_id: ThreadId,
        projection: Projection,
        make_reader: MakeReader,
        after: Seq,
        open_followers: "set[Follower]",
    ) -> None:
        super().__init__(log, thread_id, after, open_followers)
        self._projection = projection
        self._make_reader = make_reader
        self._replay: Replay | None = None

    @property
    def projection(self) -> Projection:
        return self._projection

    @property
    def _at_end(self) -> bool:
        source = self._replay or self._projection
        return source.ended and (self._replay is not None or self._projection.nothing_after(self._cursor))

    def _deletion_frames(self) -> list[bytes]:
        return self._projection.deletion_frames()

    async def _more(self) -> tuple[list[bytes], bool]:
        shared = self._projection
        while self._replay is None:
            if self._cursor < shared.floor:  # the frames this subscriber needs were dropped
                self._replay = Replay(self._make_reader(self._cursor))
                break
            frames, self._cursor = shared.after(self._cursor)
            if frames or shared.ended or not await shared.catch_up():
                return frames, shared.ended
        replay = self._replay
        frames, self._cursor = await replay.after(self._cursor)
        if not frames and not replay.ended and self._cursor >= shared.floor:
            self._replay = None  # it has caught up with the projection
        return frames, replay.ended or shared.deleted

    async def _check_deleted(self) -> None:
        await self._projection.check_deleted()


class Preamble(NamedTuple):
    """Frames for a subscriber that joins in the middle of a thread, sent before all others."""

    run_id: RunId | None
    """The run that continues at that position."""
    render: Callable[[], list[bytes]]
    """Returns the frames. Called after the encoder was fed that run."""


class UnsharedFollower(Follower):
    """A subscriber of a thread with its own encoder, which can describe what is in progress when it joins."""

    __slots__ = ("_deleted", "_entries", "_preamble", "_replay")

    def __init__(
        self,
        log: Log,
        thread_id: ThreadId,
        entries: ThreadEntries,
        replay: Replay,
        after: Seq,
        open_followers: "set[Follower]",
        preamble: Preamble | None,
    ) -> None:
        super().__init__(log, thread_id, after, open_followers)
        self._entries = entries
        self._replay = replay
        self._preamble = preamble
        self._deleted = False

    @property
    def _at_end(self) -> bool:
        return self._replay.ended or self._deleted

    def _deletion_frames(self) -> list[bytes]:
        return self._replay.deletion_frames() if self._deleted else []

    async def _more(self) -> tuple[list[bytes], bool]:
        if first := await self._first_frames():
            return first, False
        frames, self._cursor = await self._replay.after(self._cursor)
        return frames, self._at_end

    async def _first_frames(self) -> list[bytes]:
        if self._preamble is None:
            return []
        if self._preamble.run_id is not None:
            await self._entries.prime(self._preamble.run_id)
        preamble, self._preamble = self._preamble, None
        return preamble.render()

    async def _check_deleted(self) -> None:
        self._deleted = await self._entries.thread_was_deleted()


class _SharedProjection(Projection):
    """A projection whose subscribers also share the function that makes a reader for a replay. A separate function for
    each subscriber would retain the run and the options of its request for as long as the stream is open."""

    def __init__(self, make_reader: MakeReader, after: Seq, resized: Callable[[Projection], None]) -> None:
        super().__init__(make_reader(after), resized)
        self.make_reader = make_reader


class _Key(NamedTuple):
    thread_id: ThreadId
    run_id: RunId | None
    options: Hashable
    framing: Framing


class Followers:
    """All projections of a process, with an LRU cache."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._log = storage.log
        self._projections: SizedCache[_Key, _SharedProjection] = SizedCache(lambda: MAX_CACHED_BYTES)
        self._folds = ThreadFolds(storage)
        self.fold = self._folds.current
        self.fold_summary = self._folds.summary
        self._of_runs: set[Follower] = set()
        self._of_threads: set[Follower] = set()

    def followed_threads(self) -> frozenset[ThreadId]:
        """The threads with a run that is being followed now. Followers of whole threads do not count, because they
        never finish."""
        return frozenset(follower.thread_id for follower in self._of_runs)

    def threads_followed_whole(self) -> frozenset[ThreadId]:
        """The threads that are being followed across their runs."""
        return frozenset(follower.thread_id for follower in self._of_threads)

    def follow(
        self, run: Run, options: Hashable, make_encoder: Callable[[], Encoder], framing: Framing, after: Seq
    ) -> Follower:
        """Follow `run` from `after`. Followers with equal `options` and framing share a projection."""

        def make_reader(after: Seq) -> Reader:
            return Reader(RunEntries(self._log, run), make_encoder(), framing)

        projection = self._shared(_Key(run.thread_id, run.run_id, options, framing), make_reader, after)
        return SharedFollower(self._log, run.thread_id, projection, projection.make_reader, after, self._of_runs)

    async def position(self, thread_id: ThreadId, cursor: Seq | None) -> Seq:
        """The position after which a client's stream starts: its cursor, or the end of the log if None. Raises
        `InvalidCursor`."""
        last = await self._log.last(thread_id)
        if cursor is None:
            return last
        check_cursor(cursor, last)
        return cursor

    async def follow_thread(
        self,
        thread_id: ThreadId,
        options: Hashable,
        make_encoder: Callable[[], Encoder],
        framing: Framing,
        after: Seq | None,
    ) -> Follower:
        """Follow an existing thread across all its runs, from `after`, or from now if None. Raises `InvalidCursor`.

        The encoder is primed as described in `ThreadEntries`.
        """

        def make_reader(after: Seq) -> Reader:
            encoder = make_encoder()
            return Reader(ThreadEntries(self._storage, thread_id, encoder.feed, after), encoder, framing)

        cursor = await self.position(thread_id, after)
        projection = self._shared(_Key(thread_id, None, options, framing), make_reader, cursor)
        return SharedFollower(self._log, thread_id, projection, projection.make_reader, cursor, self._of_threads)

    async def follow_thread_unshared(
        self,
        thread_id: ThreadId,
        encoder: Encoder,
        framing: Framing,
        after: Seq,
        *,
        preamble: Preamble | None = None,
        until: RunId | None = None,
        upto: Seq | None = None,
        exists: bool = True,
        access: AccessFilter = EVERYTHING,
    ) -> Follower:
        """Follow a thread with the caller's own encoder, from `after` to the end described in `ThreadEntries`. If the
        thread does not exist yet, wait for it. Once it exists, `access` decides whether the caller may read it."""
        position = min(after, await self._log.last(thread_id)) if exists or not access else START
        entries = ThreadEntries(
            self._storage, thread_id, encoder.feed, position, until=until, upto=upto, exists=exists, access=access
        )
        replay = Replay(Reader(entries, encoder, framing))
        return UnsharedFollower(self._log, thread_id, entries, replay, after, self._of_threads, preamble)

    async def follow_fold(
        self, thread_id: ThreadId, name: str, make_fold: Callable[[], F], framing: Framing, after: Seq
    ) -> Follower:
        """Follow an existing thread across all its runs with an encoder that is fed the whole thread. Raises
        `InvalidCursor`.

        Followers with an equal `name` and framing share a fold with each other and with `Threads.fold`. A follower that
        is too far behind gets its own fold until it has caught up.
        """

        def make_reader(after: Seq) -> Reader:
            fold = make_fold()
            return Reader(WholeThreadEntries(self._storage, thread_id, name, fold, after), fold, framing)

        check_cursor(after, await self._log.last(thread_id))
        projection = self._folds.projection(thread_id, name, make_fold, framing, after)
        return SharedFollower(self._log, thread_id, projection, make_reader, after, self._of_threads)

    def _shared(self, key: _Key, make_reader: MakeReader, after: Seq) -> _SharedProjection:
        projection = self._projections.get(key)
        if projection is None or (projection.ended and key.run_id is None):  # the thread was deleted and created again
            self._make_room()
            projection = _SharedProjection(make_reader, after, partial(self._resized, key))
            self._projections.put(key, projection, 0)
        return projection

    def _resized(self, key: _Key, projection: Projection) -> None:
        self._projections.resize(key, projection, projection.size)

    async def drop_unused_forever(self) -> None:
        while True:
            await anyio.sleep(UNUSED_SECONDS)
            self.drop_unused()

    def drop_unused(self) -> None:
        """Drop the projections that have no subscribers and have not been used since the last call."""
        followed = {follower.projection for follower in (*self._of_runs, *self._of_threads)}
        self._projections.drop_unused(except_for=followed.__contains__)

    def _make_room(self) -> None:
        """Drop the least recently used projections. Their current followers keep a reference."""
        while len(self._projections) >= MAX_PROJECTIONS:
            self._projections.drop_oldest()

    def forget(self, run_id: RunId) -> None:
        """Drop the projections of a deleted run. Its current followers may still read to its end."""
        for key in self._projections.keys():
            if key.run_id == run_id:
                self._projections.drop(key)

    def forget_thread(self, thread_id: ThreadId) -> None:
        """Drop the projections of a deleted thread. The followers of the thread and its runs finish."""
        for key in self._projections.keys():
            if key.thread_id == thread_id and (projection := self._projections.drop(key)) is not None:
                projection.deleted = True
        self._folds.forget_thread(thread_id)
