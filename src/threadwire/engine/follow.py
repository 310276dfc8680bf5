"""Following a run, or a thread over many runs: replay, then live, from one cursor. There is no second path for "live".

A *projection* is one encoder over one run's log, or one thread's, with the frames it has made. Everybody who watches
the same with the same options shares it: each entry is encoded once, and a watcher is only a cursor into the frames. A
watcher whose cursor lies before what is still kept has the log replayed for himself; so has one who brings an encoder
of his own. The log is the truth: a projection can be thrown away at any time.
"""

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from functools import partial
from types import TracebackType
from typing import NamedTuple

from threadwire.core.encoding import Encoder
from threadwire.core.entries import START, Entry, Kind, require_given
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.storage.abc import Log, Storage, Threads, Wakeup

PAGE = 1000
SMALL_PAGE = 100
SEND_AT_MOST = 256 * 1024
"""Bytes handed to a socket at once."""

KEEP_FRAMES = 4 * 1024 * 1024
"""Bytes of frames a projection keeps; a watcher further behind reads the log."""
KEEP_PROJECTIONS = 64
"""How many are kept for those who may come back; those being watched live on without."""
POLL = 5.0
"""Seconds after which a follower looks at the log even without a hint (spec 3.3)."""

Frame = tuple[Seq, bytes]


class Reader(ABC):
    """Reads a log on, and has what it reads encoded."""

    def __init__(self, log: Log, thread_id: ThreadId, encoder: Encoder, after: Seq) -> None:
        self._log = log
        self._thread_id = thread_id
        self._encoder = encoder
        self.position = after
        self.ended = False
        """What is followed has come to its end."""

    @abstractmethod
    async def read(self, limit: int) -> list[Frame]:
        """The frames that the next entries make, at most `limit` entries. That there are none does not mean that
        nothing was read: `position` says so."""

    def _encode(self, entries: list[Entry]) -> list[Frame]:
        """Nothing is awaited here: who is cancelled has either read all of it or nothing."""
        feed = self._encoder.feed
        frames = [(entry.seq, frame) for entry in entries if (frame := feed(entry))]
        if entries:
            self.position = entries[-1].seq
        return frames

    async def has_lost_its_thread(self) -> bool:
        """A log that is shorter than what was read of it belongs to a thread that was deleted."""
        return await self._log.last(self._thread_id) < self.position


class RunReader(Reader):
    """One run, from its first entry to its last."""

    def __init__(self, log: Log, run: Run, encoder: Encoder) -> None:
        super().__init__(log, run.thread_id, encoder, Seq(run.queued_seq - 1))
        self._run_id = run.run_id

    async def read(self, limit: int) -> list[Frame]:
        entries = await self._log.read(self._thread_id, self.position, limit=limit, run_id=self._run_id)
        self.ended = bool(entries) and entries[-1].kind == Kind.RUN_ENDED
        return self._encode(entries)


class ThreadReader(Reader):
    """A thread from some position on, over all its runs: for ever, or up to the end of the run `until`, or to the
    position `upto`.

    The encoder is fed every entry after the position. Before the first one of a run that had begun earlier, it is fed
    that run's earlier entries, silently (4.5a); and of no other run, so that following a long thread costs no more than
    following a short one.
    """

    def __init__(
        self,
        storage: Storage,
        thread_id: ThreadId,
        encoder: Encoder,
        after: Seq,
        *,
        until: RunId | None = None,
        upto: Seq | None = None,
    ) -> None:
        super().__init__(storage.log, thread_id, encoder, after)
        self._threads: Threads = storage.threads
        self._until = until
        self._upto = upto
        self._begun: set[RunId] = set()
        self._primed: dict[RunId, Seq] = {}

    async def read(self, limit: int) -> list[Frame]:
        entries = await self._log.read(self._thread_id, self.position, limit=limit)
        entries, is_end = self._up_to_the_end(entries)
        for entry in entries:
            if entry.run_id is not None:
                if entry.kind == Kind.RUN_QUEUED:
                    self._begun.add(entry.run_id)
                await self.prime(entry.run_id)
        is_end = is_end or await self._was_discarded(entries)
        frames = self._encode(entries)
        self._begun -= {entry.run_id for entry in entries if entry.run_id and entry.kind == Kind.RUN_ENDED}
        self.ended = is_end
        return frames

    async def prime(self, run_id: RunId) -> None:
        """Feed what the run had said up to the position, once. Who is cancelled here goes on where he was."""
        while run_id not in self._begun:
            fed = self._primed.get(run_id, START)
            entries = await self._log.read(self._thread_id, fed, limit=PAGE, run_id=run_id)
            earlier = [entry for entry in entries if entry.seq <= self.position]
            for entry in earlier:
                self._encoder.feed(entry)
            if len(earlier) < len(entries) or not entries:
                self._primed.pop(run_id, None)
                self._begun.add(run_id)
            else:
                self._primed[run_id] = earlier[-1].seq

    def _up_to_the_end(self, entries: list[Entry]) -> tuple[list[Entry], bool]:
        for index, entry in enumerate(entries):
            ends_run = entry.kind == Kind.RUN_ENDED and entry.run_id == self._until
            if ends_run or (self._upto is not None and entry.seq >= self._upto):
                return entries[: index + 1], True
        return entries, False

    async def _was_discarded(self, entries: list[Entry]) -> bool:
        """The end of a temporary run takes the thread with it, though its log can still be read (5.10)."""
        ended = any(entry.kind == Kind.RUN_ENDED for entry in entries)
        return ended and await self._threads.get(self._thread_id) is None

    async def has_lost_its_thread(self) -> bool:
        if self.position == START:  # of a log without entries nothing can be missing
            return await self._threads.get(self._thread_id) is None
        return await super().has_lost_its_thread()


class Projection:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._reading = asyncio.Lock()
        self._seqs: list[int] = []
        self._frames: list[bytes] = []
        self._kept = 0
        self.floor = reader.position
        """Watchers at or after this position find everything they need here."""
        self.gone = False
        """The thread was deleted, and with it the log."""

    @property
    def ended(self) -> bool:
        return self._reader.ended or self.gone

    async def catch_up(self) -> bool:
        """Encode what the log has gained. True if there was anything."""
        if self.ended:
            return False
        before = self._reader.position
        async with self._reading:
            if self._reader.position == before:  # or somebody else has read on while this one waited
                for seq, frame in await self._reader.read(PAGE):
                    self._keep(seq, frame)
        return self._reader.position > before

    def _keep(self, seq: Seq, frame: bytes) -> None:
        self._seqs.append(seq)
        self._frames.append(frame)
        self._kept += len(frame)
        if self._kept > KEEP_FRAMES:
            self._forget_half()

    def _forget_half(self) -> None:
        half = max(1, len(self._seqs) // 2)
        self.floor = Seq(self._seqs[half - 1])
        del self._seqs[:half], self._frames[:half]
        self._kept = sum(map(len, self._frames))

    async def look_whether_gone(self) -> None:
        self.gone = self.gone or await self._reader.has_lost_its_thread()

    def nothing_after(self, cursor: Seq) -> bool:
        return not self._seqs or self._seqs[-1] <= cursor

    def after(self, cursor: Seq) -> tuple[bytes, Seq]:
        """The frames after `cursor`, as many as fit one send, and the cursor behind them."""
        first = bisect_right(self._seqs, cursor)
        if first == len(self._seqs):
            return b"", cursor
        last, size = first, 0
        while last < len(self._seqs) and size < SEND_AT_MOST:
            size += len(self._frames[last])
            last += 1
        return b"".join(self._frames[first:last]), Seq(self._seqs[last - 1])


class Replay:
    """A log read for one watcher alone, with an encoder of its own: what it has shown it does not keep."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._unsent: deque[Frame] = deque()

    @property
    def ended(self) -> bool:
        return self._reader.ended and not self._unsent

    async def after(self, cursor: Seq) -> tuple[bytes, Seq]:
        """The next frames after `cursor`, as many as fit one send; nothing, if the log has no more yet."""
        while not self._unsent and not self._reader.ended:
            before = self._reader.position
            read = await self._reader.read(SMALL_PAGE)
            self._unsent.extend(frame for frame in read if frame[0] > cursor)  # up to there this only primes (4.5)
            if self._reader.position == before:
                break
        frames, size = [], 0
        while self._unsent and size < SEND_AT_MOST:
            cursor, frame = self._unsent.popleft()
            frames.append(frame)
            size += len(frame)
        return b"".join(frames), cursor


MakeReader = Callable[[Seq], Reader]
"""A reader with a new encoder, for a watcher at that position."""


class Follower(ABC):
    """One watcher of one run or thread: a context manager with a `next`. Small: there is one for every open stream."""

    __slots__ = ("_cursor", "_open", "_wakeup", "_watch", "thread_id")

    def __init__(self, log: Log, thread_id: ThreadId, after: Seq, open_followers: "set[Follower]") -> None:
        self._cursor = after
        self._open = open_followers
        self.thread_id = thread_id
        self._watch = log.watch(thread_id)
        self._wakeup: Wakeup | None = None

    def __enter__(self) -> "Follower":
        # Watch before the first read, or an entry between the two would go unseen (spec 3.2).
        self._wakeup = self._watch.__enter__()
        self._open.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.discard(self)
        self._watch.__exit__(kind, error, trace)

    async def next(self, timeout: float) -> bytes | None:
        """What comes next: frames; nothing (`b""`) after `timeout` seconds of silence; None when no more will come."""
        assert self._wakeup is not None, "a follower is used inside its `with`"
        now = asyncio.get_running_loop().time
        until = now() + timeout
        while True:
            frames, ended = await self._more()
            if frames:
                return frames
            if ended:
                return None
            if (left := until - now()) <= 0:
                return b""
            if not await self._wakeup.wait(min(left, POLL)):
                await self._look_whether_gone()

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether what `next` gave was the last of it."""

    @abstractmethod
    async def _more(self) -> tuple[bytes, bool]:
        """What there is by now, and whether that is the end."""

    @abstractmethod
    async def _look_whether_gone(self) -> None:
        """The thread may have been deleted, by another process too."""


class SharingFollower(Follower):
    """A watcher who sees what others see."""

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
    def finished(self) -> bool:
        source = self._replay or self._projection
        return source.ended and (self._replay is not None or self._projection.nothing_after(self._cursor))

    async def _more(self) -> tuple[bytes, bool]:
        shared = self._projection
        while self._replay is None:
            if self._cursor < shared.floor:  # what this watcher needs is no longer kept
                self._replay = Replay(self._make_reader(self._cursor))
                break
            frames, self._cursor = shared.after(self._cursor)
            if frames or shared.ended or not await shared.catch_up():
                return frames, shared.ended
        replay = self._replay
        frames, self._cursor = await replay.after(self._cursor)
        if not frames and not replay.ended and self._cursor >= shared.floor:
            self._replay = None  # it has caught up with the others
        return frames, replay.ended or shared.gone

    async def _look_whether_gone(self) -> None:
        await self._projection.look_whether_gone()


class Arrival(NamedTuple):
    """Somebody comes in the middle of a thread."""

    run_id: RunId | None
    """The run that goes on there."""
    greet: Callable[[], bytes]
    """What he is told before the rest, once the encoder has been fed that run."""


class LoneFollower(Follower):
    """A watcher of a thread with an encoder of his own, which can be asked what somebody who comes now has to know."""

    __slots__ = ("_arrival", "_gone", "_reader", "_replay")

    def __init__(
        self,
        log: Log,
        thread_id: ThreadId,
        reader: ThreadReader,
        after: Seq,
        open_followers: "set[Follower]",
        arrival: Arrival | None,
    ) -> None:
        super().__init__(log, thread_id, after, open_followers)
        self._reader = reader
        self._replay = Replay(reader)
        self._arrival = arrival
        self._gone = False

    @property
    def finished(self) -> bool:
        return self._replay.ended or self._gone

    async def _more(self) -> tuple[bytes, bool]:
        if greeting := await self._greeting():
            return greeting, False
        frames, self._cursor = await self._replay.after(self._cursor)
        return frames, self.finished

    async def _greeting(self) -> bytes:
        if self._arrival is None:
            return b""
        if self._arrival.run_id is not None:
            await self._reader.prime(self._arrival.run_id)
        arrival, self._arrival = self._arrival, None
        return arrival.greet()

    async def _look_whether_gone(self) -> None:
        self._gone = await self._reader.has_lost_its_thread()


class _Key(NamedTuple):
    thread_id: ThreadId
    run_id: RunId | None
    options: Hashable


class Followers:
    """All projections of a process, the most recently used kept."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._log = storage.log
        self._projections: OrderedDict[_Key, Projection] = OrderedDict()
        self._of_runs: set[Follower] = set()
        self._of_threads: set[Follower] = set()

    def watched(self) -> frozenset[ThreadId]:
        """The threads of which somebody is following a run now. Who follows a thread would do so for ever."""
        return frozenset(follower.thread_id for follower in self._of_runs)

    def follow(self, run: Run, options: Hashable, make_encoder: Callable[[], Encoder], after: Seq) -> Follower:
        """Watch `run` from `after` on. `options` says which projections are the same."""

        def make_reader(after: Seq) -> Reader:
            return RunReader(self._log, run, make_encoder())

        projection = self._shared(_Key(run.thread_id, run.run_id, options), partial(make_reader, after))
        return SharingFollower(self._log, run.thread_id, projection, make_reader, after, self._of_runs)

    async def follow_thread(
        self, thread_id: ThreadId, options: Hashable, make_encoder: Callable[[], Encoder], after: Seq | None
    ) -> Follower:
        """Watch a thread, which must exist, over all its runs: from `after` on, or with None from now on. Raises
        `InvalidCursor`.

        The encoder is fed as `ThreadReader` says.
        """

        def make_reader(after: Seq) -> Reader:
            return ThreadReader(self._storage, thread_id, make_encoder(), after)

        last = await self._log.last(thread_id)
        cursor = last if after is None else after
        require_given(cursor, last)
        projection = self._shared(_Key(thread_id, None, options), partial(make_reader, cursor))
        return SharingFollower(self._log, thread_id, projection, make_reader, cursor, self._of_threads)

    async def follow_thread_alone(
        self,
        thread_id: ThreadId,
        encoder: Encoder,
        after: Seq,
        *,
        arrival: Arrival | None = None,
        until: RunId | None = None,
        upto: Seq | None = None,
    ) -> Follower:
        """Watch a thread with an encoder of one's own: from `after` on, as far as `ThreadReader` says."""
        position = min(after, await self._log.last(thread_id))
        reader = ThreadReader(self._storage, thread_id, encoder, position, until=until, upto=upto)
        return LoneFollower(self._log, thread_id, reader, after, self._of_threads, arrival)

    def _shared(self, key: _Key, make_reader: Callable[[], Reader]) -> Projection:
        projection = self._projections.get(key)
        if projection is None or (projection.ended and key.run_id is None):  # a thread of that id was made again
            self._make_room()
            projection = self._projections[key] = Projection(make_reader())
        self._projections.move_to_end(key)
        return projection

    def _make_room(self) -> None:
        """Drop the least recently used; whoever still watches one keeps it alive by himself."""
        while len(self._projections) >= KEEP_PROJECTIONS:
            self._projections.popitem(last=False)

    def forget(self, run_id: RunId) -> None:
        """The run is deleted; whoever still watches it may see its end."""
        for key in [key for key in self._projections if key.run_id == run_id]:
            del self._projections[key]

    def forget_thread(self, thread_id: ThreadId) -> None:
        """The thread is deleted: whoever watches it, or a run of it, waits for nothing."""
        for key in [key for key in self._projections if key.thread_id == thread_id]:
            self._projections.pop(key).gone = True
