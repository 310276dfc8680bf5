"""Following a thread over many runs, from one cursor: replay, then live."""

import asyncio
from collections.abc import Callable
from types import TracebackType

from threadwire.core.encoding import Encoder
from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.engine.follow import POLL, SEND_AT_MOST, SMALL_PAGE
from threadwire.storage.abc import Storage, Wakeup


class ThreadFollower:
    """One watcher of one thread, with an encoder of its own: a context manager with a `next`.

    An encoder is primed from the beginning of the run in which the cursor lies, and never before (spec 4.6). `arrived`
    is asked, once it is, for what is to be said before the rest. It ends with the run `until`, at the position
    `upto`, or never.
    """

    def __init__(
        self,
        storage: Storage,
        thread_id: ThreadId,
        encoder: Encoder,
        after: Seq,
        *,
        arrived: Callable[[], bytes] | None = None,
        until: RunId | None = None,
        upto: Seq | None = None,
    ) -> None:
        self._storage = storage
        self._thread_id = thread_id
        self._encoder = encoder
        self._cursor = after
        self._arrived = arrived
        self._until = until
        self._upto = upto
        self._position: Seq | None = None
        self._watch = storage.log.watch(thread_id)
        self._wakeup: Wakeup | None = None
        self._ended = False

    def __enter__(self) -> "ThreadFollower":
        # Watch before the first read, or an entry between the two would go unseen (spec 3.2).
        self._wakeup = self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.__exit__(kind, error, trace)

    @property
    def finished(self) -> bool:
        return self._ended

    async def next(self, timeout: float) -> bytes | None:
        """What comes next: frames; nothing (`b""`) after `timeout` seconds of silence; None when no more will come."""
        assert self._wakeup is not None, "a follower is used inside its `with`"
        now = asyncio.get_running_loop().time
        until = now() + timeout
        while not self._ended:
            frames, read = await self._more()
            if frames:
                return frames
            if read or self._ended:
                continue
            if (left := until - now()) <= 0:
                return b""
            if not await self._wakeup.wait(min(left, POLL)):
                self._ended = await self._storage.threads.get(self._thread_id) is None
        return None

    async def _more(self) -> tuple[bytes, bool]:
        if self._position is None:
            under_way = await self._storage.runs.under_way_at(self._thread_id, self._cursor)
            self._position = self._cursor if under_way is None else Seq(under_way.queued_seq - 1)
        if self._position >= self._cursor and (said := self._say_first()):
            return said, True
        entries = await self._storage.log.read(self._thread_id, self._position, limit=SMALL_PAGE)
        frames: list[bytes] = []
        size = 0
        for entry in entries:
            if entry.seq > self._cursor:
                frames.append(self._say_first())
            frame = self._encoder.feed(entry)
            self._position = entry.seq
            if entry.seq > self._cursor:  # up to there this only primes it (spec 4.5)
                frames.append(frame)
                size += len(frame)
            if self._is_last(entry):
                self._ended = True
                break
            if size >= SEND_AT_MOST:
                break
        return b"".join(frames), bool(entries)

    def _say_first(self) -> bytes:
        arrived, self._arrived = self._arrived, None
        return b"" if arrived is None else arrived()

    def _is_last(self, entry: Entry) -> bool:
        if self._upto is not None and entry.seq >= self._upto:
            return True
        return self._until is not None and entry.kind == Kind.RUN_ENDED and entry.run_id == self._until
