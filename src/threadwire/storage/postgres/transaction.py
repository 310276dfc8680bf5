"""The transaction that a change is executed in.

Every transaction that changes a thread locks the head of the thread first. So the changes of a thread are serialized,
and a transaction that locks several heads in the order of their keys cannot deadlock with another one.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import QueueHint
from threadwire.errors import Fenced, NotFound
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.failures import Contended
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.segments import MAX_ENTRIES, Encoded, Segment, pack

_LOCK = "SELECT thread, last_seq, live, run, attempt FROM thread_heads WHERE thread = $1 FOR UPDATE"
_LOCK_MANY = """
SELECT thread, last_seq, live, run, attempt FROM thread_heads WHERE thread = ANY($1) ORDER BY thread FOR UPDATE
"""
_LOCK_FREE = """
SELECT thread, last_seq, live, run, attempt FROM thread_heads WHERE thread = ANY($1) FOR UPDATE SKIP LOCKED
"""
_CREATE = "INSERT INTO thread_heads (thread, live) VALUES ($1, false) ON CONFLICT DO NOTHING RETURNING true"
# One statement, because every statement is a round trip. `greatest`, because CURRENT_DATE is the day on which the
# transaction started: one that waited for a lock may have started a day before the previous writer.
_WRITE = """
WITH changed AS (
  UPDATE thread_heads AS h
     SET last_seq = g.last_seq, live = g.live, run = g.run, attempt = g.attempt, until = greatest(h.until, CURRENT_DATE)
    FROM unnest($1::bytea[], $2::bigint[], $3::boolean[], $4::bytea[], $5::integer[])
      AS g (thread, last_seq, live, run, attempt)
   WHERE h.thread = g.thread
), appended AS (
  INSERT INTO segments (thread, first_seq, n, run, attempt, at, packed, data)
  SELECT * FROM unnest($6::bytea[], $7::bigint[], $8::integer[], $9::bytea[], $10::integer[], $11::bigint[],
                       $12::smallint[], $13::bytea[])
)
SELECT pg_current_xact_id()::text
"""


class Head:
    """What is known about a thread whose head is locked."""

    __slots__ = ("before", "holder", "last", "live")

    def __init__(self, last: int, live: bool, holder: Fence | None) -> None:
        self.last = last
        self.live = live
        self.holder = holder
        self.before = (last, live, holder)

    @property
    def changed(self) -> bool:
        return (self.last, self.live, self.holder) != self.before


class SegmentRow(NamedTuple):
    thread: bytes
    first: int
    n: int
    run: bytes | None
    attempt: int
    at: int
    packed: int
    data: bytes


class Transaction:
    def __init__(self, db: Connection) -> None:
        self.db = db
        self._heads: dict[ThreadId, Head] = {}
        self._open: dict[ThreadId, Segment] = {}
        self.segments: list[Segment] = []
        self.rows: list[SegmentRow] = []
        """The segments as they were written."""
        self.forgotten: set[ThreadId] = set()
        self.hints = QueueHint.NOTHING
        """What to hint to workers after the commit."""

    async def lock(self, thread_id: ThreadId) -> Head:
        """Lock a thread and return its head. A thread that does not exist has a head too, which is not live."""
        head = self._heads.get(thread_id)
        if head is None:
            row = await self.db.fetchrow(_LOCK, key_of(thread_id))
            head = self._heads[thread_id] = Head(0, False, None) if row is None else _head(*row)
        return head

    async def lock_free(self, thread_ids: Iterable[ThreadId]) -> set[ThreadId]:
        """Lock threads, except those that another transaction has locked. Returns the latter."""
        wanted = {key_of(thread_id): thread_id for thread_id in thread_ids}
        for row in await self.db.fetch(_LOCK_FREE, [*wanted]):
            self._heads[wanted.pop(row[0])] = _head(*row)
        if not wanted:
            return set()
        existing = await self.db.fetch("SELECT thread FROM thread_heads WHERE thread = ANY($1)", [*wanted])
        locked = {wanted.pop(key) for (key,) in existing}
        for thread_id in wanted.values():
            self._heads[thread_id] = Head(0, False, None)
        return locked

    async def lock_many(self, thread_ids: Iterable[ThreadId]) -> None:
        missing = [thread_id for thread_id in thread_ids if thread_id not in self._heads]
        if not missing:
            return
        for row in await self.db.fetch(_LOCK_MANY, [key_of(thread_id) for thread_id in missing]):
            self._heads[ThreadId(name_of(row[0]))] = _head(*row)
        for thread_id in missing:
            self._heads.setdefault(thread_id, Head(0, False, None))

    async def lock_found(self, sql: str, *bindings: Any) -> list[ThreadId]:
        """Lock and return the threads whose heads a query returns. The query must end in FOR UPDATE."""
        found: list[ThreadId] = []
        for row in await self.db.fetch(sql, *bindings):
            thread_id = ThreadId(name_of(row[0]))
            self._heads[thread_id] = _head(*row)
            found.append(thread_id)
        return found

    async def create(self, thread_id: ThreadId) -> Head:
        """Create a thread that does not exist, and lock it."""
        if await self.db.fetchval(_CREATE, key_of(thread_id)):
            head = self._heads[thread_id] = Head(0, False, None)
        else:
            self._heads.pop(thread_id, None)
            head = await self.lock(thread_id)
            if head.live:
                raise Contended
        head.live = True
        return head

    def head(self, thread_id: ThreadId) -> Head:
        """The head of a thread that was locked before."""
        return self._heads[thread_id]

    def require(self, thread_id: ThreadId, fence: Fence | None) -> None:
        head = self._heads[thread_id]
        if fence is None:
            if not head.live:
                raise NotFound(f"Thread {thread_id} not found")
        elif head.holder != fence:
            raise Fenced()

    def append(self, thread_id: ThreadId, entries: list[Encoded], run_id: RunId | None = None, attempt: int = 0) -> Seq:
        """Number the entries and return the last number. They are written when the transaction is committed."""
        head = self._heads[thread_id]
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

    def hold(self, thread_id: ThreadId, fence: Fence) -> None:
        """Let an attempt hold its thread."""
        self._heads[thread_id].holder = fence

    def release(self, thread_id: ThreadId) -> None:
        self._heads[thread_id].holder = None

    def discard(self, thread_id: ThreadId) -> None:
        """Mark the thread as nonexistent. Its log can still be read (5.10)."""
        self._heads[thread_id].live = False

    async def forget(self, thread_id: ThreadId) -> None:
        """Delete the log of a thread, and wake its watchers."""
        head = await self.lock(thread_id)
        if head.holder is not None:
            self.hints |= QueueHint.STOPS
        key = key_of(thread_id)
        await self.db.execute("DELETE FROM segments WHERE thread = $1", key)
        await self.db.execute("DELETE FROM fold_snapshots WHERE thread = $1", key)
        await self.db.execute("DELETE FROM thread_heads WHERE thread = $1", key)
        self._heads[thread_id] = Head(0, False, None)
        self._open.pop(thread_id, None)
        self.segments = [segment for segment in self.segments if segment.thread_id != thread_id]
        self.forgotten.add(thread_id)

    async def write(self) -> str | None:
        """Execute everything except the commit. Returns the id of the transaction, or None if it changes nothing."""
        changed = [(thread_id, head) for thread_id, head in self._heads.items() if head.changed]
        if not changed and not self.segments:
            xid: str | None = await self.db.fetchval("SELECT pg_current_xact_id_if_assigned()::text")
            return xid
        heads = (
            [key_of(thread_id) for thread_id, _ in changed],
            [head.last for _, head in changed],
            [head.live for _, head in changed],
            [None if head.holder is None else key_of(head.holder.run_id) for _, head in changed],
            [None if head.holder is None else head.holder.attempt for _, head in changed],
        )
        self.rows = [row for segment in self.segments for row in _rows(segment)]
        columns = list(zip(*self.rows, strict=True)) if self.rows else [()] * len(SegmentRow._fields)
        xid = await self.db.fetchval(_WRITE, *heads, *columns)
        return xid


def _head(thread: bytes, last: int, live: bool, run: bytes | None, attempt: int | None) -> Head:
    return Head(last, live, None if run is None else Fence(RunId(name_of(run)), attempt or 0))


def _rows(segment: Segment) -> Iterable[SegmentRow]:
    thread = key_of(segment.thread_id)
    run = None if segment.run_id is None else key_of(segment.run_id)
    for offset, n, at, packed, data in pack(segment.entries):
        yield SegmentRow(thread, segment.first + offset, n, run, segment.attempt, at, packed, data)
