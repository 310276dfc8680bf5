"""The format of entries in a segment row. Pure: no database, no clock.

A segment is a sequence of consecutive entries of one thread by one attempt, or by none. What they have in common is in
columns; `data` contains the rest as a JSON array with one `[kind, at - base, ns or 0, data]` per entry.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from threadwire.core import json
from threadwire.core.entries import Draft, Entry, Kind, Namespace
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.temporary_caches import temporary_cache
from threadwire.storage.compression import compress, decompress

MAX_ENTRIES = 200
MAX_BYTES = 64 * 1024

# These numbers are stored on disk. Add new ones, never renumber.
KINDS: dict[int, str] = {
    1: Kind.RUN_QUEUED,
    2: Kind.RUN_STARTED,
    3: Kind.RUN_ENDED,
    4: Kind.MESSAGES,
    5: Kind.CUSTOM,
    6: Kind.TOOL,
    7: Kind.UPDATES,
    8: Kind.STATE,
    9: Kind.STATE_RESET,
    10: Kind.INPUT_REQUESTED,
    11: Kind.INPUT_ANSWERED,
    12: Kind.TASK,
    13: Kind.CHECKPOINT,
    14: Kind.TASKS,
    15: Kind.CHECKPOINTS,
    16: Kind.DEBUG,
    17: Kind.EVENTS,
    18: Kind.DISPATCHED,
    19: Kind.WIDGET_FROZEN,
    20: Kind.NOTE,
}
CODES: dict[str, int] = {kind: code for code, kind in KINDS.items()}

# These are stored on disk too: how the entries of a row are compressed.
UNCOMPRESSED, ZLIB, ZSTD = 0, 1, 2

_ENTRY_COST = 250
"""The overhead of a cached entry in addition to its data, in bytes."""

Encoded = tuple[str, str, Namespace, int]
"""A draft with serialized data: `(kind, data, ns, at)`. Immutable."""


class Segment:
    """Consecutive entries of one thread by the same attempt, or by none."""

    __slots__ = ("attempt", "entries", "first", "run_id", "thread_id")

    def __init__(self, thread_id: ThreadId, first: int, run_id: RunId | None, attempt: int) -> None:
        self.thread_id = thread_id
        self.first = first
        self.run_id = run_id
        self.attempt = attempt
        self.entries: list[Encoded] = []

    @property
    def last(self) -> int:
        return self.first + len(self.entries) - 1

    @property
    def cost(self) -> int:
        return sum(len(data) for _, data, _, _ in self.entries) + _ENTRY_COST * len(self.entries)

    def after(self, seq: int, limit: int) -> list[Entry]:
        skip = max(0, seq + 1 - self.first)
        return decode(self.entries[skip : skip + limit], self.first + skip, self.run_id, self.attempt)


class Packed(NamedTuple):
    """The part of a segment row that is computed from its entries."""

    offset: int
    """Number of entries of the segment before this row: a large segment is split into several rows."""
    n: int
    at: int
    packed: int
    data: bytes


def encode(drafts: Iterable[Draft], clock: Callable[[], int]) -> list[Encoded]:
    """Serialize drafts. A draft without a timestamp gets the current time. Called for every streamed token; takes about
    half a microsecond."""
    return [(kind, _dumps(data), _valid_namespace(ns) if ns else (), at or clock()) for kind, data, ns, at in drafts]


def decode(encoded: Sequence[Encoded], first: int, run_id: RunId | None, attempt: int) -> list[Entry]:
    entry, loads = Entry._make, orjson.loads
    return [
        entry((seq, run_id, attempt, at, ns, kind, loads(data)))
        for seq, (kind, data, ns, at) in enumerate(encoded, first)
    ]


def pack(encoded: Sequence[Encoded], offset: int = 0) -> Iterator[Packed]:
    """Return one row, or several if the entries are too large for one. A single entry is never split."""
    base = encoded[0][3]
    code, fragment = CODES.get, orjson.Fragment
    raw = orjson.dumps([(code(kind, kind), at - base, ns or 0, fragment(data)) for kind, data, ns, at in encoded])
    if len(raw) > MAX_BYTES and len(encoded) > 1:
        middle = len(encoded) // 2
        yield from pack(encoded[:middle], offset)
        yield from pack(encoded[middle:], offset + middle)
        return
    if (compressed := compress(raw)) is not None:
        yield Packed(offset, len(encoded), base, ZSTD, compressed)
    else:
        yield Packed(offset, len(encoded), base, UNCOMPRESSED, raw)


def unpack(
    first: int, run_id: RunId | None, attempt: int, at: int, packed: int, data: bytes, skip: int = 0
) -> list[Entry]:
    """Return the entries of a row, without the first `skip` of them. The row's first entry has the number `first`."""
    rows = orjson.loads(_unpacked(packed, data))
    entry, kinds = Entry._make, KINDS.get
    return [
        entry((seq, run_id, attempt, at + delta, tuple(ns) if ns else (), kinds(kind, kind), value))
        for seq, (kind, delta, ns, value) in enumerate(rows[skip:] if skip else rows, first + skip)
    ]


def _unpacked(packed: int, data: bytes) -> bytes:
    if packed == UNCOMPRESSED:
        return data
    return decompress(data) if packed == ZSTD else zlib.decompress(data)  # written by version 0.1


def _dumps(data: Any) -> str:
    # Text, because the bytes from orjson occupy a buffer of a kilobyte: retaining thousands of them costs 2 µs each.
    try:
        return orjson.dumps(data).decode()
    except TypeError:
        return json.dumps(data).decode()


@temporary_cache(maxsize=4096)
def _valid_namespace(ns: Namespace) -> Namespace:
    """The namespace with invalid UTF-8 replaced, in the same way as everywhere else."""
    return tuple(json.native(ns))
