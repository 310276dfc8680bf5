"""Reading a log and encoding it into frames, once for all subscribers or for one of them.

A *projection* is one encoder over one run's or one thread's log, with the frames it has produced. Subscribers that
follow the same log with the same options share it: each entry is encoded once. A *replay* encodes the log for a single
subscriber and retains nothing. The log is the source of truth, so a projection can be discarded at any time.
"""

import asyncio
from bisect import bisect_right
from collections import deque

from threadwire.core.encoding import Encoder, Framing
from threadwire.core.entries import Entry
from threadwire.core.ids import Seq
from threadwire.engine.entry_readers import PAGE, SMALL_PAGE, EntryReader

MAX_SEND_BYTES = 256 * 1024
"""Bytes passed to a socket in one call."""

MAX_RETAINED_BYTES = 4 * 1024 * 1024
"""Bytes of frames a projection retains. A subscriber further behind reads the log."""

Frames = tuple[Seq, bytes]
"""An entry's position and its frames."""


class Reader:
    """Reads a log page by page, and encodes and frames the entries."""

    def __init__(self, entries: EntryReader, encoder: Encoder, framing: Framing) -> None:
        self.entries = entries
        self._encoder = encoder
        self._framing = framing

    @property
    def position(self) -> Seq:
        return self.entries.position

    @property
    def ended(self) -> bool:
        """Whether the run or thread has no further entries."""
        return self.entries.ended

    async def read(self, limit: int) -> list[Frames]:
        """Return the frames of the next entries, at most `limit` entries. Entries may produce no frames, so check
        `position` to see whether any were read."""
        return self._encode(await self.entries.read(limit))

    def _encode(self, entries: list[Entry]) -> list[Frames]:
        """Contains no `await`, so a cancelled caller has read either all of these entries or none."""
        feed, framing = self._encoder.feed, self._framing
        return [(seq := entry.seq, framing(messages, seq)) for entry in entries if (messages := feed(entry))]


class Projection:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._reading = asyncio.Lock()
        self._seqs: list[int] = []
        self._frames: list[bytes] = []
        self._size = 0
        self.floor = reader.position
        """Subscribers at or after this position find every frame they need here."""
        self.deleted = False
        """Whether the thread was deleted, and with it the log."""

    @property
    def ended(self) -> bool:
        return self._reader.ended or self.deleted

    @property
    def position(self) -> Seq:
        """The last entry that was read."""
        return self._reader.position

    @property
    def size(self) -> int:
        """Bytes of the frames that are retained."""
        return self._size

    async def catch_up(self) -> bool:
        """Encode new log entries. Return whether there were any."""
        if self.ended:
            return False
        before = self._reader.position
        async with self._reading:
            if self._reader.position == before:  # otherwise another subscriber has read on while this one waited
                self._add(await self._reader.read(PAGE))
        return self._reader.position > before

    def _add(self, read: list[Frames]) -> None:
        added = [frames for _, frames in read]
        self._seqs += [seq for seq, _ in read]
        self._frames += added
        self._size += sum(map(len, added))
        while self._size > MAX_RETAINED_BYTES:
            self._drop_older_half()

    def _drop_older_half(self) -> None:
        half = max(1, len(self._seqs) // 2)
        self.floor = Seq(self._seqs[half - 1])
        del self._seqs[:half], self._frames[:half]
        self._size = sum(map(len, self._frames))

    async def check_deleted(self) -> None:
        self.deleted = self.deleted or await self._reader.entries.thread_was_deleted()

    def nothing_after(self, cursor: Seq) -> bool:
        return not self._seqs or self._seqs[-1] <= cursor

    def after(self, cursor: Seq) -> tuple[list[bytes], Seq]:
        """Return the frames after `cursor`, as many entries as fit in one send, and the new cursor."""
        first = bisect_right(self._seqs, cursor)
        if first == len(self._seqs):
            return [], cursor
        last, size = first, 0
        while last < len(self._seqs) and size < MAX_SEND_BYTES:
            size += len(self._frames[last])
            last += 1
        return self._frames[first:last], Seq(self._seqs[last - 1])


class Replay:
    """A log read for a single subscriber with its own encoder. Frames are dropped once they are returned."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._unsent: deque[Frames] = deque()

    @property
    def ended(self) -> bool:
        return self._reader.ended and not self._unsent

    async def after(self, cursor: Seq) -> tuple[list[bytes], Seq]:
        """Return the next frames after `cursor`, as many entries as fit in one send, and the new cursor. There are none
        if the log has no more yet."""
        while not self._unsent and not self._reader.ended:
            before = self._reader.position
            read = await self._reader.read(SMALL_PAGE)
            self._unsent.extend(each for each in read if each[0] > cursor)  # earlier ones only prime it (4.5)
            if self._reader.position == before:
                break
        frames: list[bytes] = []
        size = 0
        while self._unsent and size < MAX_SEND_BYTES:
            cursor, of_entry = self._unsent.popleft()
            frames.append(of_entry)
            size += len(of_entry)
        return frames, cursor
