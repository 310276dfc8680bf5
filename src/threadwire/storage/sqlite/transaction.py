"""The transaction that jobs are executed in, and the writer's cached facts about each thread."""

from collections.abc import Iterable
from typing import Any

import apsw

from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Lease, QueueHint
from threadwire.core.temporary_caches import temporary_cache
from threadwire.errors import Fenced, NotFound
from threadwire.storage.local_leases import LocalLeases
from threadwire.storage.segments import MAX_ENTRIES, Encoded, Segment, pack
from threadwire.storage.sqlite.id_keys import Key, key_of, name_of

_ROWS_PER_INSERT = 32
_SEGMENT_COLUMNS = 8

# No newline at the end, or apsw would ask SQLite on every call whether another statement follows.
HEAD_COLUMNS = """
       ifnull((SELECT first_seq + n - 1 FROM segments WHERE thread = ?1 ORDER BY first_seq DESC LIMIT 1), 0),
       EXISTS (SELECT 1 FROM threads WHERE thread = ?1),
       (SELECT run FROM runs WHERE thread = ?1 AND status = 'running'),
       (SELECT attempt FROM runs WHERE thread = ?1 AND status = 'running')"""
"""The columns of a query that also loads the head of the thread `?1`, for `Transaction.use_head`."""
_LOAD_HEAD = f"SELECT {HEAD_COLUMNS}"


class Head:
    """The writer's cached facts about a thread. Loaded on first use, and again after every rollback."""

    __slots__ = ("exists", "holder", "last")

    def __init__(self, last: int, exists: bool, holder: Fence | None) -> None:
        self.last = last
        self.exists = exists
        self.holder = holder


class Transaction:
    """The operations available to a job. `BEGIN` is executed before the first statement that needs it."""

    def __init__(self, db: apsw.Connection, heads: dict[ThreadId, Head], leases: LocalLeases[Fence]) -> None:
        self._db = db
        self._heads = heads
        self._leases = leases
        self._begun = False
        self._open: dict[ThreadId, Segment] = {}
        self._inserts: dict[tuple[str, int], list[Any]] = {}
        self.segments: list[Segment] = []
        self.forgotten: list[ThreadId] = []
        self.acquired: dict[Fence, ThreadId] = {}
        self.released: set[Fence] = set()
        self.hints = QueueHint.NOTHING
        """What to hint to workers once the transaction is durable."""

    @property
    def db(self) -> apsw.Connection:
        self._begin()
        self._insert_all()
        return self._db

    def insert(self, into: str, columns: int, values: Iterable[Any]) -> None:
        """Add rows, given as one flat sequence of values. Rows for the same table are inserted in one statement, before
        the next use of `db`, because every statement competes for the interpreter lock."""
        self._inserts.setdefault((into, columns), []).extend(values)

    def _begin(self) -> None:
        if not self._begun:
            self._db.execute("BEGIN IMMEDIATE")
            self._begun = True

    def head(self, thread_id: ThreadId) -> Head:
        head = self._heads.get(thread_id)
        if head is None:
            [columns] = self._db.execute(_LOAD_HEAD, (key_of(thread_id),))
            head = self.use_head(thread_id, *columns)
        return head

    def use_head(self, thread_id: ThreadId, last: int, exists: int, run: Key | None, attempt: int | None) -> Head:
        """Use a head that another query has loaded, which saves a statement. A cached head takes precedence: it counts
        the entries of this batch, which are not written yet."""
        head = self._heads.get(thread_id)
        if head is None:
            holder = None if run is None else Fence(RunId(name_of(run)), attempt or 0)
            head = self._heads[thread_id] = Head(last, bool(exists), holder)
        return head

    def require(self, thread_id: ThreadId, fence: Fence | None) -> None:
        head = self.head(thread_id)
        if fence is None:
            if not head.exists:
                raise NotFound(f"Thread {thread_id} not found")
        elif head.holder != fence:
            raise Fenced()

    def append(self, thread_id: ThreadId, entries: list[Encoded], run_id: RunId | None = None, attempt: int = 0) -> Seq:
        """Number the entries and return the last number. They are written when the batch is committed."""
        head = self.head(thread_id)
        for at in range(0, len(entries), MAX_ENTRIES):
            part = entries[at : at + MAX_ENTRIES]
            segment = self._open.get(thread_id)
            if (
                segment is None
                or segment.run_id != run_id
                or segment.attempt != attempt
                or len(segment.entries) + len(part) > MAX_ENTRIES
            ):
                segment = self._open[thread_id] = Segment(thread_id, head.last + 1, run_id, attempt)
                self.segments.append(segment)
            segment.entries += part
            head.last += len(part)
        return Seq(head.last)

    def hold(self, thread_id: ThreadId, fence: Fence, lease: Lease) -> None:
        """Let an attempt hold its thread. Its lease is granted now, so that a later job of the batch sees it; if the
        batch is rolled back, the lease belongs to no holder and has no effect."""
        self.head(thread_id).holder = fence
        self.acquired[fence] = thread_id
        self._leases.grant(fence, lease)

    def release(self, thread_id: ThreadId) -> None:
        head = self.head(thread_id)
        if head.holder is not None:
            self.acquired.pop(head.holder, None)
            self.released.add(head.holder)
            head.holder = None

    def create(self, thread_id: ThreadId) -> None:
        self.head(thread_id).exists = True

    def create_new(self, thread_id: ThreadId) -> None:
        """`create` for an id that was generated just now, so that nothing is stored under it."""
        self._heads[thread_id] = Head(0, True, None)

    def discard(self, thread_id: ThreadId) -> None:
        """Mark the thread as nonexistent. Its log can still be read (5.10)."""
        self.head(thread_id).exists = False

    def forget(self, thread_id: ThreadId) -> None:
        """Mark the thread as deleted, and drop the entries of it that this batch has not written yet."""
        if self.head(thread_id).holder is not None:
            self.hints |= QueueHint.STOPS
        self.release(thread_id)
        self._heads[thread_id] = Head(0, False, None)
        self._open.pop(thread_id, None)
        self.segments = [segment for segment in self.segments if segment.thread_id != thread_id]
        self.forgotten.append(thread_id)

    def write(self) -> None:
        """Execute everything except the commit."""
        for segment in self.segments:
            for row in _rows(segment):
                self.insert("INSERT INTO segments", _SEGMENT_COLUMNS, row)
        if self._begun or sum(map(_statements, self._inserts.items())) > 1:
            self._begin()
            self._insert_all()

    def commit(self) -> None:
        """Commit. The typical batch of a streaming run is a single statement, which needs no explicit transaction."""
        if self._begun:
            self._db.execute("COMMIT")
        else:
            self._insert_all()

    def _insert_all(self) -> None:
        for (into, columns), values in self._inserts.items():
            step = columns * _ROWS_PER_INSERT
            for at in range(0, len(values), step):
                part = values[at : at + step]
                self._db.execute(_insertion(into, columns, len(part) // columns), part)
        self._inserts.clear()


def _rows(segment: Segment) -> Iterable[tuple[Any, ...]]:
    thread = key_of(segment.thread_id)
    run: Key | None = None if segment.run_id is None else key_of(segment.run_id)
    for offset, n, at, packed, data in pack(segment.entries):
        yield thread, segment.first + offset, n, run, segment.attempt, at, packed, data


def _statements(insert: tuple[tuple[str, int], list[Any]]) -> int:
    (_, columns), values = insert
    return -(-len(values) // (columns * _ROWS_PER_INSERT))


@temporary_cache(maxsize=128)
def _insertion(into: str, columns: int, rows: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"{into} VALUES {', '.join([row] * rows)}"
