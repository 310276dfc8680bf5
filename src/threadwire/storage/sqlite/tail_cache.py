"""A cache of the newest entries of each thread, so that following a live run needs no database access."""

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable

from threadwire.core.entries import Entry
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.storage.segments import Segment


class _Tail:
    """Segments without a gap, up to the thread's last published entry."""

    __slots__ = ("firsts", "segments")

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.firsts: list[int] = []


class TailCache:
    """Updated by the writer after each sync. Readable from any thread.

    Entries are cached in encoded form and decoded for every reader: this takes half a microsecond, and no reader can
    modify what another one reads.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self._tails: OrderedDict[ThreadId, _Tail] = OrderedDict()
        self._used: set[ThreadId] = set()
        """The threads that have been used since the last `drop_unused`."""

    def add(self, segments: Iterable[Segment]) -> None:
        with self._lock:
            for segment in segments:
                tail = self._tails.get(segment.thread_id)
                if tail is None:
                    tail = self._tails[segment.thread_id] = _Tail()
                else:
                    self._tails.move_to_end(segment.thread_id)
                tail.segments.append(segment)
                tail.firsts.append(segment.first)
                self._used.add(segment.thread_id)
                self._bytes += segment.cost
            while self._bytes > self._max_bytes and self._tails:
                self._evict()

    def forget(self, thread_id: ThreadId) -> None:
        with self._lock:
            self._forget(thread_id)

    def drop_unused(self) -> None:
        """Drop the tails that have not been used since the last call. Memory full of small objects is not returned
        to the system, so a burst of entries must not stay until the next one."""
        with self._lock:
            for thread_id in self._tails.keys() - self._used:
                self._forget(thread_id)
            self._used.clear()

    def _forget(self, thread_id: ThreadId) -> None:
        if (tail := self._tails.pop(thread_id, None)) is not None:
            self._bytes -= sum(segment.cost for segment in tail.segments)

    def read(self, thread_id: ThreadId, after: int, limit: int, run_id: RunId | None) -> list[Entry] | None:
        """Like `Log.read`, or None if some entry after `after` is not cached."""
        with self._lock:
            tail = self._tails.get(thread_id)
            if tail is None or after + 1 < tail.firsts[0]:
                return None
            self._tails.move_to_end(thread_id)
            self._used.add(thread_id)
            segments = tail.segments[bisect_right(tail.firsts, after + 1) - 1 :]
        found: list[Entry] = []
        for segment in segments:
            if run_id is None or segment.run_id == run_id:
                found += segment.after(after, limit - len(found))
                if len(found) >= limit:
                    break
        return found

    def last(self, thread_id: ThreadId) -> Seq | None:
        with self._lock:
            tail = self._tails.get(thread_id)
            return None if tail is None else Seq(tail.segments[-1].last)

    def _evict(self) -> None:
        """Evict the older half of the least recently used tail."""
        thread_id, tail = next(iter(self._tails.items()))
        half = (len(tail.segments) + 1) // 2
        self._bytes -= sum(segment.cost for segment in tail.segments[:half])
        del tail.segments[:half], tail.firsts[:half]
        if not tail.segments:
            del self._tails[thread_id]
