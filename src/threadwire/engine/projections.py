"""Reading a log and encoding it into frames, once for all subscribers or for one of them.

A *projection* is one encoder over one run's or one thread's log, with the frames it has produced. Subscribers that
follow the same log with the same options share it: each entry is encoded once. A *replay* encodes the log for a single
subscriber and retains nothing. The log is the source of truth, so a projection can be discarded at any time.
"""

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque

from threadwire.core.encoding import Encoder, Framing
from threadwire.core.entries import START, Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.storage.abc import Log, Storage, Threads

PAGE = 1000
SMALL_PAGE = 100
MAX_SEND_BYTES = 256 * 1024
"""Bytes passed to a socket in one call."""

MAX_RETAINED_BYTES = 4 * 1024 * 1024
"""Bytes of frames a projection retains. A subscriber further behind reads the log."""

Frames = tuple[Seq, bytes]
"""An entry's position and its frames."""


class Reader(ABC):
    """Reads a log page by page and encodes the entries."""

    def __init__(self, log: Log, thread_id: ThreadId, encoder: Encoder, framing: Framing, after: Seq) -> None:
        self._log = log
        self._thread_id = thread_id
        self._encoder = encoder
        self._framing = framing
        self.position = after
        self.ended = False
        """Whether the run or thread has no further entries."""

    @abstractmethod
    async def read(self, limit: int) -> list[Frames]:
        """Return the frames of the next entries, at most `limit` entries. Entries may produce no frames, so check
        `position` to see whether any were read."""

    def _encode(self, entries: list[Entry]) -> list[Frames]:
        """Contains no `await`, so a cancelled caller has read either all of these entries or none."""
        feed, framing = self._encoder.feed, self._framing
        frames = [(seq := entry.seq, framing(messages, seq)) for entry in entries if (messages := feed(entry))]
        if entries:
            self.position = entries[-1].seq
        return frames

    async def thread_was_deleted(self) -> bool:
        """A log shorter than what was read from it belongs to a thread that was deleted."""
        return await self._log.last(self._thread_id) < self.position


class RunReader(Reader):
    """Reads one run, from its first entry to its last."""

    def __init__(self, log: Log, run: Run, encoder: Encoder, framing: Framing) -> None:
        super().__init__(log, run.thread_id, encoder, framing, Seq(run.queued_seq - 1))
        self._run_id = run.run_id

    async def read(self, limit: int) -> list[Frames]:
        entries = await self._log.read(self._thread_id, self.position, limit=limit, run_id=self._run_id)
        self.ended = bool(entries) and entries[-1].kind == Kind.RUN_ENDED
        return self._encode(entries)


class ThreadReader(Reader):
    """Reads a thread from a position, across all its runs: indefinitely, or up to the end of the run `until`, or up to
    the position `upto`.

    The encoder is fed every entry after the position. Before the first entry of a run that started earlier, it is fed
    that run's earlier entries, and their messages are dropped (4.5a). No other run is read, so following a long thread
    costs no more than following a short one.
    """

    def __init__(
        self,
        storage: Storage,
        thread_id: ThreadId,
        encoder: Encoder,
        framing: Framing,
        after: Seq,
        *,
        until: RunId | None = None,
        upto: Seq | None = None,
    ) -> None:
        super().__init__(storage.log, thread_id, encoder, framing, after)
        self._threads: Threads = storage.threads
        self._until = until
        self._upto = upto
        self._primed: set[RunId] = set()
        self._priming: dict[RunId, Seq] = {}

    async def read(self, limit: int) -> list[Frames]:
        entries = await self._log.read(self._thread_id, self.position, limit=limit)
        entries, is_end = self._up_to_the_end(entries)
        for entry in entries:
            if entry.run_id is not None:
                if entry.kind == Kind.RUN_QUEUED:
                    self._primed.add(entry.run_id)
                await self.prime(entry.run_id)
        is_end = is_end or await self._was_discarded(entries)
        frames = self._encode(entries)
        self._primed -= {entry.run_id for entry in entries if entry.run_id and entry.kind == Kind.RUN_ENDED}
        self.ended = is_end
        return frames

    async def prime(self, run_id: RunId) -> None:
        """Feed the encoder the run's entries up to the position, once. Safe to cancel; the next call resumes."""
        while run_id not in self._primed:
            fed = self._priming.get(run_id, START)
            entries = await self._log.read(self._thread_id, fed, limit=PAGE, run_id=run_id)
            earlier = [entry for entry in entries if entry.seq <= self.position]
            for entry in earlier:
                self._encoder.feed(entry)
            if len(earlier) < len(entries) or not entries:
                self._priming.pop(run_id, None)
                self._primed.add(run_id)
            else:
                self._priming[run_id] = earlier[-1].seq

    def _up_to_the_end(self, entries: list[Entry]) -> tuple[list[Entry], bool]:
        for index, entry in enumerate(entries):
            ends_run = entry.kind == Kind.RUN_ENDED and entry.run_id == self._until
            if ends_run or (self._upto is not None and entry.seq >= self._upto):
                return entries[: index + 1], True
        return entries, False

    async def _was_discarded(self, entries: list[Entry]) -> bool:
        """When a temporary run ends, its thread is discarded, although the log can still be read (5.10)."""
        ended = any(entry.kind == Kind.RUN_ENDED for entry in entries)
        return ended and await self._threads.get(self._thread_id) is None

    async def thread_was_deleted(self) -> bool:
        if self.position == START:  # the log's length shows nothing if none of it was read
            return await self._threads.get(self._thread_id) is None
        return await super().thread_was_deleted()


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
        self.deleted = self.deleted or await self._reader.thread_was_deleted()

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
