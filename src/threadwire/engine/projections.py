"""Reading a log and encoding it into frames, once for all subscribers or for one of them.

A *projection* is one encoder over one run's or one thread's log, with the frames it has produced. Subscribers that
follow the same log with the same options share it: each entry is encoded once. A *replay* encodes the log for a single
subscriber and retains nothing. The log is the source of truth, so a projection can be discarded at any time.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable

from anyio.lowlevel import checkpoint

from threadwire.core.encoder import Encoder, Framing, ReportsDeletion
from threadwire.core.entries import Entry
from threadwire.core.ids import Seq
from threadwire.engine.entry_readers import PAGE, SMALL_PAGE, EntryReader
from threadwire.engine.project_code import feed_in_thread
from threadwire.engine.shielding import run_to_completion

MAX_SEND_BYTES = 64 * 1024
"""Bytes passed to a socket in one call. A subscriber that does not read holds about three times as many: in the buffer
of its socket, in the bytes of the next call, and in the frames that these bytes were joined from."""

MAX_ENCODED_BYTES = 1024 * 1024
"""Bytes of frames after which encoding pauses, so that others can run."""

MAX_RETAINED_BYTES = 4 * 1024 * 1024
"""Bytes of frames a projection retains. A subscriber further behind reads the log."""

Frames = tuple[Seq, bytes]
"""An entry's position and its frames."""


class Reader:
    """Reads a log page by page, and encodes and frames the entries."""

    def __init__(self, entries: EntryReader, encoder: Encoder, framing: Framing) -> None:
        self.entries = entries
        self._encoder = encoder
        # Not isinstance(encoder, CallsProjectCode), which takes thirty times as long.
        self._calls_code: Callable[[Entry], bool] | None = getattr(encoder, "calls_project_code", None)
        self._framing = framing
        self._left: deque[Entry] = deque()
        """Entries of the last page that are not encoded yet: encoding pauses after `MAX_ENCODED_BYTES`."""

    @property
    def position(self) -> Seq:
        return Seq(self._left[0].seq - 1) if self._left else self.entries.position

    @property
    def ended(self) -> bool:
        """Whether the run or thread has no further entries."""
        return self.entries.ended and not self._left

    async def read(self, limit: int) -> list[Frames]:
        """Return the frames of the next entries, at most `limit` entries. Entries may produce no frames, so check
        `position` to see whether any were read."""
        if not self._left:
            self._left.extend(await self.entries.read(limit))
        else:
            await checkpoint()  # encoding large entries takes a while: let others run in between
        if self._calls_code is not None and self._left and self._calls_code(self._left[0]):
            return await self._encode_in_thread(self._left.popleft())
        return self._encode()

    def deletion_frames(self) -> list[bytes]:
        """Return the last frames of a stream whose thread was deleted before the stream ended."""
        if self.ended or not isinstance(self._encoder, ReportsDeletion):
            return []
        messages = self._encoder.deleted()
        return [self._framing(messages, None)] if messages else []

    def _encode(self) -> list[Frames]:
        """Contains no `await`, so a cancelled caller has read either all of these entries or none."""
        feed, framing, left, calls_code = self._encoder.feed, self._framing, self._left, self._calls_code
        encoded: list[Frames] = []
        size = 0
        while left and size < MAX_ENCODED_BYTES and not (calls_code and calls_code(left[0])):
            entry = left.popleft()
            if messages := feed(entry):
                frames = framing(messages, entry.seq)
                encoded.append((entry.seq, frames))
                size += len(frames)
        return encoded

    @property
    def must_finish(self) -> bool:
        """Whether a read may use the encoder in another thread, and therefore must not be cancelled."""
        return self._calls_code is not None

    async def _encode_in_thread(self, entry: Entry) -> list[Frames]:
        messages = await feed_in_thread(self._encoder, entry)
        return [(entry.seq, self._framing(messages, entry.seq))] if messages else []


class Projection:
    def __init__(self, reader: Reader, resized: "Callable[[Projection], None] | None" = None) -> None:
        """`resized` is called when the size has changed."""
        self._reader = reader
        self._resized = resized
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
        if self._reader.must_finish:
            await run_to_completion(self._read_after(before))
        else:
            await self._read_after(before)
        return self._reader.position > before

    async def _read_after(self, position: Seq) -> None:
        async with self._reading:
            if self._reader.position == position:  # otherwise another subscriber has read further while this one waited
                self._add(await self._reader.read(PAGE))

    def _add(self, read: list[Frames]) -> None:
        added = [frames for _, frames in read]
        self._seqs += [seq for seq, _ in read]
        self._frames += added
        self._size += sum(map(len, added))
        while self._size > MAX_RETAINED_BYTES:
            self._drop_older_half()
        if self._resized is not None:
            self._resized(self)

    def _drop_older_half(self) -> None:
        half = max(1, len(self._seqs) // 2)
        self.floor = Seq(self._seqs[half - 1])
        del self._seqs[:half], self._frames[:half]
        self._size = sum(map(len, self._frames))

    def deletion_frames(self) -> list[bytes]:
        return self._reader.deletion_frames() if self.deleted else []

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

    def deletion_frames(self) -> list[bytes]:
        return self._reader.deletion_frames()

    async def after(self, cursor: Seq) -> tuple[list[bytes], Seq]:
        """Return the next frames after `cursor`, as many entries as fit in one send, and the new cursor. There are none
        if the log has no more yet."""
        while not self._unsent and not self._reader.ended:
            before = self._reader.position
            read = await self._reader.read(SMALL_PAGE)
            self._unsent.extend(each for each in read if each[0] > cursor)  # earlier ones only prime the encoder (4.5)
            if self._reader.position == before:
                break
        frames: list[bytes] = []
        size = 0
        while self._unsent and size < MAX_SEND_BYTES:
            cursor, of_entry = self._unsent.popleft()
            frames.append(of_entry)
            size += len(of_entry)
        return frames, cursor
