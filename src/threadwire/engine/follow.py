"""Following a run: replay, then live, from one cursor. There is no second path for "live".

A *projection* is one encoder over one run's log, with the frames it has made. Everybody who watches the run with the
same options shares it: each entry is encoded once, and a watcher is only a cursor into the frames. A watcher whose
cursor lies before what is still kept gets a projection of its own, made anew from the log. The log is the truth: a
projection can be thrown away at any time.
"""

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable
from types import TracebackType

from threadwire.core.encoding import Encoder
from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.storage.abc import Log, Wakeup

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


class Projection:
    def __init__(self, log: Log, run: Run, encoder: Encoder) -> None:
        self._log = log
        self._run = run
        self._encoder = encoder
        self._position = Seq(run.queued_seq - 1)
        self._reading = asyncio.Lock()
        self._seqs: list[int] = []
        self._frames: list[bytes] = []
        self._kept = 0
        self.floor = Seq(run.queued_seq - 1)
        """Watchers at or after this position find everything they need here."""
        self.ended = False

    async def catch_up(self) -> bool:
        """Encode what the log has gained. True if there was anything."""
        if self.ended:
            return False
        before = self._position
        async with self._reading:
            if self._position == before:  # or somebody else has read on while this one waited
                entries = await self._log.read(self._run.thread_id, before, limit=PAGE, run_id=self._run.run_id)
                for entry in entries:
                    self._take(entry)
        return self._position > before

    def _take(self, entry: Entry) -> None:
        self._position = entry.seq
        if frame := self._encoder.feed(entry):
            self._seqs.append(entry.seq)
            self._frames.append(frame)
            self._kept += len(frame)
            if self._kept > KEEP_FRAMES:
                self._forget_half()
        if entry.kind == Kind.RUN_ENDED:
            self.ended = True

    def _forget_half(self) -> None:
        half = max(1, len(self._seqs) // 2)
        self.floor = Seq(self._seqs[half - 1])
        del self._seqs[:half], self._frames[:half]
        self._kept = sum(map(len, self._frames))

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
    """A run read for one watcher alone, with an encoder of its own: what it has shown it does not keep."""

    def __init__(self, log: Log, run: Run, encoder: Encoder) -> None:
        self._log = log
        self._run = run
        self._encoder = encoder
        self._position = Seq(run.queued_seq - 1)
        self.ended = False

    async def after(self, cursor: Seq) -> tuple[bytes, Seq]:
        """The next frames after `cursor`; nothing, if the log has no more yet."""
        frames: list[bytes] = []
        while not frames and not self.ended:
            entries = await self._log.read(
                self._run.thread_id, self._position, limit=SMALL_PAGE, run_id=self._run.run_id
            )
            if not entries:
                break
            for entry in entries:
                frame = self._encoder.feed(entry)  # up to the cursor this only primes it (spec 4.5)
                if frame and entry.seq > cursor:
                    frames.append(frame)
                    cursor = entry.seq
            self._position = entries[-1].seq
            self.ended = entries[-1].kind == Kind.RUN_ENDED
        return b"".join(frames), cursor


class Follower:
    """One watcher of one run: a context manager with a `next`. Small: there is one for every open stream."""

    __slots__ = ("_cursor", "_log", "_make_encoder", "_open", "_projection", "_replay", "_run", "_wakeup", "_watch")

    def __init__(
        self,
        log: Log,
        run: Run,
        projection: Projection,
        make_encoder: Callable[[], Encoder],
        after: Seq,
        open_followers: "set[Follower]",
    ) -> None:
        self._log = log
        self._run = run
        self._projection = projection
        self._make_encoder = make_encoder
        self._cursor = after
        self._replay: Replay | None = None
        self._open = open_followers
        self._watch = log.watch(run.thread_id)
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

    @property
    def thread_id(self) -> ThreadId:
        return self._run.thread_id

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
            await self._wakeup.wait(min(left, POLL))

    @property
    def finished(self) -> bool:
        """Whether what `next` gave was the last of it."""
        source = self._replay or self._projection
        return source.ended and (self._replay is not None or self._projection.nothing_after(self._cursor))

    async def _more(self) -> tuple[bytes, bool]:
        shared = self._projection
        while self._replay is None:
            if self._cursor < shared.floor:  # what this watcher needs is no longer kept
                self._replay = Replay(self._log, self._run, self._make_encoder())
                break
            frames, self._cursor = shared.after(self._cursor)
            if frames or shared.ended or not await shared.catch_up():
                return frames, shared.ended
        frames, self._cursor = await self._replay.after(self._cursor)
        return frames, self._replay.ended


class Followers:
    """All projections of a process, the most recently used kept."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._projections: OrderedDict[Hashable, Projection] = OrderedDict()
        self._open: set[Follower] = set()

    def follow(self, run: Run, options: Hashable, make_encoder: Callable[[], Encoder], after: Seq) -> Follower:
        """Watch `run` from `after` on. `options` says which projections are the same."""
        projection = self._shared((run.run_id, options), run, make_encoder)
        return Follower(self._log, run, projection, make_encoder, after, self._open)

    def watched(self) -> frozenset[ThreadId]:
        """The threads that somebody is following now."""
        return frozenset(follower.thread_id for follower in self._open)

    def _shared(self, key: Hashable, run: Run, make_encoder: Callable[[], Encoder]) -> Projection:
        projection = self._projections.get(key)
        if projection is None:
            self._make_room()
            projection = self._projections[key] = Projection(self._log, run, make_encoder())
        self._projections.move_to_end(key)
        return projection

    def _make_room(self) -> None:
        """Drop the least recently used; whoever still watches one keeps it alive by himself."""
        while len(self._projections) >= KEEP_PROJECTIONS:
            self._projections.popitem(last=False)

    def forget(self, run_id: RunId) -> None:
        for key in [key for key in self._projections if isinstance(key, tuple) and key[0] == run_id]:
            del self._projections[key]
