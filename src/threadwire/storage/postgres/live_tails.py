"""The newest segments of the threads that are followed in this process, so that following a live run reads no table.

The tables are the source of truth. A tail holds only committed segments, of the last few seconds, without a gap. What
it does not hold is read from the table; so are entries that were cached too long ago, because another process may have
deleted the thread and created it again since.
"""

import threading
import time
from collections import deque
from struct import Struct
from struct import error as StructError
from typing import Protocol
from zlib import crc32

from threadwire.core.entries import Entry
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.storage.postgres.hints import SegmentHint
from threadwire.storage.postgres.id_keys import name_of
from threadwire.storage.postgres.transaction import SegmentRow
from threadwire.storage.segments import unpack

LIFETIME = 2.0
"""Seconds for which a segment is served from memory."""
MAX_SEGMENTS = 200
"""The maximum per thread."""

_HEADER = Struct("<IiqBH")
"""A checksum of what follows it; the attempt, the time, the compression, and the length of the run's key, which
follows."""
_CHECKSUM_SIZE = 4


class CommittedSegment(Protocol):
    first: int
    run_id: RunId | None

    @property
    def last(self) -> int: ...

    def after(self, seq: int, limit: int) -> list[Entry]: ...


class StoredSegment:
    """A segment as another process stored it."""

    __slots__ = ("_at", "_attempt", "_data", "_packed", "first", "last", "run_id")

    def __init__(self, hint: SegmentHint) -> None:
        _, self._attempt, self._at, self._packed, length = _HEADER.unpack_from(hint.segment)
        run = hint.segment[_HEADER.size : _HEADER.size + length]
        self.run_id = RunId(name_of(run)) if run else None
        self.first: int = hint.first_seq
        self.last: int = hint.first_seq + hint.count - 1
        self._data = hint.segment[_HEADER.size + length :]

    def after(self, seq: int, limit: int) -> list[Entry]:
        skip = max(0, seq + 1 - self.first)
        return unpack(self.first, self.run_id, self._attempt, self._at, self._packed, self._data, skip)[:limit]


def received(hint: SegmentHint) -> StoredSegment | None:
    """The segment that a hint carries. None if there is none, or if it is damaged: other programs can publish too."""
    try:
        checksum = _HEADER.unpack_from(hint.segment)[0]
    except StructError:
        return None
    return StoredSegment(hint) if checksum == crc32(memoryview(hint.segment)[_CHECKSUM_SIZE:]) else None


def hint_of(thread_id: ThreadId, row: SegmentRow) -> SegmentHint:
    """The hint that carries a stored segment to other processes."""
    run = row.run or b""
    content = (_HEADER.pack(0, row.attempt, row.at, row.packed, len(run)) + run + row.data)[_CHECKSUM_SIZE:]
    return SegmentHint(thread_id, Seq(row.first), row.n, crc32(content).to_bytes(_CHECKSUM_SIZE, "little") + content)


class LiveTails:
    """Changed on the database thread, read on the storage's event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tails: dict[ThreadId, deque[tuple[float, CommittedSegment]]] = {}

    def add(self, thread_id: ThreadId, segment: CommittedSegment) -> None:
        now = time.monotonic()
        with self._lock:
            tail = self._tails.setdefault(thread_id, deque(maxlen=MAX_SEGMENTS))
            if tail and segment.first <= tail[-1][1].last:
                return  # hinted twice, or late
            if tail and (tail[-1][1].last + 1 != segment.first or tail[-1][0] < now - LIFETIME):
                tail.clear()
            tail.append((now, segment))

    def forget(self, thread_id: ThreadId) -> None:
        with self._lock:
            self._tails.pop(thread_id, None)

    def read(self, thread_id: ThreadId, after: int, limit: int, run_id: RunId | None) -> list[Entry]:
        """Return entries from `after` on, or none if they have to be read from the table."""
        oldest = time.monotonic() - LIFETIME
        with self._lock:
            recent = [segment for added, segment in self._tails.get(thread_id, ()) if added >= oldest]
        if not recent or after + 1 < recent[0].first:
            return []
        found: list[Entry] = []
        for segment in recent:
            if segment.last > after and (run_id is None or segment.run_id == run_id):
                found += segment.after(after, limit - len(found))
                if len(found) >= limit:
                    break
        return found
