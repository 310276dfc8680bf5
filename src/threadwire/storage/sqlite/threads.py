"""Threads: their rows, and what they hold."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import apsw

from threadwire.core.entries import Draft
from threadwire.core.ids import ThreadId
from threadwire.core.records import Settled, Thread, ThreadQuery
from threadwire.errors import Conflict, NotFound
from threadwire.storage.sqlite.keys import key_of, name_of
from threadwire.storage.sqlite.log import require_thread
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, to_text, to_text_or_null
from threadwire.storage.sqlite.segments import Encoded, encode
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.writer import Operation, Writer

_STATUS = "CASE WHEN t.active > 0 THEN 'busy' ELSE t.status END"
_THREADS = f"""
SELECT t.thread, t.created_at, t.updated_at, {_STATUS}, t.state_updated_at, t.metadata, t.config, s.vals,
       ifnull(s.interrupts, '{{}}'), t.error, t.owner
  FROM threads AS t LEFT JOIN thread_state AS s ON s.thread = t.thread
"""
_SORT = {
    "thread_id": "t.thread",
    "status": _STATUS,
    "created_at": "t.created_at",
    "updated_at": "t.updated_at",
    "state_updated_at": "t.state_updated_at",
}


class SqliteThreads:
    def __init__(self, writer: Writer, readers: Readers, clock: Callable[[], int]) -> None:
        self._writer = writer
        self._readers = readers
        self._clock = clock

    async def create(self, thread: Thread, *, if_exists: str = "raise") -> Thread:
        def create(transaction: Transaction) -> Thread:
            if transaction.head(thread.thread_id).exists:
                if if_exists == "do_nothing":
                    return load_thread(transaction.db, thread.thread_id)
                raise Conflict(f"Thread {thread.thread_id} already exists")
            insert_thread(transaction, thread)
            return thread

        return await self._writer.do(create)

    async def get(self, thread_id: ThreadId) -> Thread | None:
        with self._readers.lend() as db:
            found = find_thread(db, thread_id)
        await self._writer.told()
        return found

    async def update(self, thread_id: ThreadId, *, metadata: dict[str, Any], now: int) -> Thread:
        def update(transaction: Transaction) -> Thread:
            transaction.require(thread_id, None)
            merge_metadata(transaction.db, thread_id, metadata, now)
            return load_thread(transaction.db, thread_id)

        return await self._writer.do(update)

    async def delete(self, thread_id: ThreadId) -> None:
        def delete(transaction: Transaction) -> None:
            transaction.require(thread_id, None)
            _remove(transaction, thread_id)

        await self._writer.do(delete)

    async def search(self, query: ThreadQuery) -> list[Thread]:
        return await self._readers.elsewhere(partial(_search, query))

    async def count(self, query: ThreadQuery) -> int:
        return await self._readers.elsewhere(partial(_count, query))

    def settle(self, thread_id: ThreadId, settled: Settled, drafts: Sequence[Draft], now: int) -> Operation[None]:
        require_thread(self._readers, thread_id)
        entries = encode(drafts, self._clock)
        state = StateColumns(settled)

        def settle(transaction: Transaction) -> None:
            state.write(transaction.db, thread_id, now)
            _append(transaction, thread_id, entries)

        work = Operation(settle, thread_id=thread_id, weight=len(state.values or ""))
        self._writer.take(work)
        return work

    async def discarded(
        self, *, before: int, but_not: frozenset[ThreadId] = frozenset(), limit: int = 100
    ) -> list[ThreadId]:
        sql = "SELECT thread FROM discarded_threads WHERE at < ? ORDER BY at LIMIT ?"
        with self._readers.lend() as db:
            found = [ThreadId(name_of(key)) for (key,) in fetch(db, sql, (before, limit + len(but_not)))]
        return [thread_id for thread_id in found if thread_id not in but_not][:limit]

    async def sweep(self, thread_ids: Sequence[ThreadId]) -> None:
        def sweep(transaction: Transaction) -> None:
            for thread_id in thread_ids:
                sql = "DELETE FROM discarded_threads WHERE thread = ? RETURNING 1"
                known = transaction.db.execute(sql, (key_of(thread_id),)).get is not None
                if known and not transaction.head(thread_id).exists:
                    _remove(transaction, thread_id)

        await self._writer.do(sweep)


def _append(transaction: Transaction, thread_id: ThreadId, entries: list[Encoded]) -> None:
    transaction.append(thread_id, entries)


def _remove(transaction: Transaction, thread_id: ThreadId) -> None:
    for table in (
        "threads",
        "thread_state",
        "runs",
        "segments",
        "checkpoints",
        "checkpoint_blobs",
        "checkpoint_writes",
        "crons",
    ):
        transaction.db.execute(f"DELETE FROM {table} WHERE thread = ?", (key_of(thread_id),))
    transaction.forget(thread_id)


def discard_thread(transaction: Transaction, thread_id: ThreadId, now: int) -> None:
    """It is no thread any more, but a log and runs that can be read until they are swept (5.10)."""
    thread = key_of(thread_id)
    transaction.db.execute("DELETE FROM threads WHERE thread = ?", (thread,))
    transaction.db.execute("DELETE FROM thread_state WHERE thread = ?", (thread,))
    transaction.db.execute("INSERT OR REPLACE INTO discarded_threads VALUES (?, ?)", (thread, now))
    transaction.discard(thread_id)


class StateColumns:
    """What a thread settles on, as its columns will hold it. Made by the caller, whose objects may change later."""

    def __init__(self, settled: Settled) -> None:
        self.status = settled.status
        self.values = to_text_or_null(settled.values)
        self.interrupts = to_text(settled.interrupts)
        self.error = to_text_or_null(settled.error)

    def write(self, db: apsw.Connection, thread_id: ThreadId, now: int, *, ended: int = 0) -> int:
        """Put them into the thread's rows, with `ended` active runs less; how many it has left."""
        thread = key_of(thread_id)
        db.execute("INSERT OR REPLACE INTO thread_state VALUES (?, ?, ?)", (thread, self.values, self.interrupts))
        left: int = db.execute(
            """UPDATE threads SET status = ?, error = ?, updated_at = ?, state_updated_at = ?, active = active - ?
                WHERE thread = ? RETURNING active""",
            (self.status, self.error, now, now, ended, thread),
        ).get
        return left


def insert_thread(transaction: Transaction, thread: Thread) -> None:
    key = key_of(thread.thread_id)
    transaction.db.execute(
        "INSERT INTO threads VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?)",
        (
            key,
            thread.created_at,
            thread.updated_at,
            "idle" if thread.status == "busy" else thread.status,
            thread.state_updated_at,
            to_text(thread.metadata),
            to_text(thread.config),
            to_text_or_null(thread.error),
            thread.owner,
        ),
    )
    if thread.values is not None or thread.interrupts:
        transaction.db.execute(
            "INSERT INTO thread_state VALUES (?, ?, ?)",
            (key, to_text_or_null(thread.values), to_text(thread.interrupts)),
        )
    transaction.create(thread.thread_id)


def merge_metadata(db: apsw.Connection, thread_id: ThreadId, metadata: dict[str, Any], now: int) -> None:
    key = key_of(thread_id)
    before = db.execute("SELECT metadata FROM threads WHERE thread = ?", (key,)).get
    db.execute("UPDATE threads SET metadata = ?, updated_at = ? WHERE thread = ?", (merged(before, metadata), now, key))


def merged(before: str, more: dict[str, Any]) -> str:
    return to_text(from_text(before) | more) if more else before


def find_thread(db: apsw.Connection, thread_id: ThreadId) -> Thread | None:
    for row in fetch(db, _THREADS + "WHERE t.thread = ?", (key_of(thread_id),)):
        return _thread(row)
    return None


def load_thread(db: apsw.Connection, thread_id: ThreadId) -> Thread:
    thread = find_thread(db, thread_id)
    if thread is None:
        raise NotFound(f"Thread {thread_id} not found")
    return thread


def _search(query: ThreadQuery, db: apsw.Connection) -> list[Thread]:
    where, bindings = _where(query)
    order = "DESC" if query.descending else "ASC"
    # The id makes the order total, or pages could repeat and skip rows that sort alike.
    sql = f"{_THREADS} {where} ORDER BY {_SORT[query.sort_by]} {order}, t.thread {order} LIMIT ? OFFSET ?"
    return [_thread(row) for row in fetch(db, sql, [*bindings, query.limit, query.offset])]


def _count(query: ThreadQuery, db: apsw.Connection) -> int:
    where, bindings = _where(query)
    join = "LEFT JOIN thread_state AS s ON s.thread = t.thread" if query.values else ""
    return int(db.execute(f"SELECT count(*) FROM threads AS t {join} {where}", bindings).get)


def _where(query: ThreadQuery) -> tuple[str, list[Any]]:
    """Only ever placeholders: what a client sends is bound, and its keys are compared in Python by `contains`."""
    terms: list[str] = []
    bindings: list[Any] = []
    if query.ids:
        terms.append(f"t.thread IN ({', '.join('?' * len(query.ids))})")
        bindings += map(key_of, query.ids)
    if query.status == "busy":
        terms.append("t.active > 0")
    elif query.status is not None:
        terms.append("t.active = 0 AND t.status = ?")
        bindings.append(query.status)
    if query.metadata:
        terms.append("json_contains(t.metadata, ?)")
        bindings.append(apsw.pyobject(query.metadata))
    if query.values:
        terms.append("json_contains(s.vals, ?)")
        bindings.append(apsw.pyobject(query.values))
    return ("WHERE " + " AND ".join(terms) if terms else ""), bindings


def _thread(row: tuple[Any, ...]) -> Thread:
    thread, created, updated, status, state_updated, metadata, config, values, interrupts, error, owner = row
    return Thread(
        thread_id=ThreadId(name_of(thread)),
        created_at=created,
        updated_at=updated,
        status=status,
        state_updated_at=state_updated,
        metadata=from_text(metadata),
        config=from_text(config),
        values=from_text(values),
        interrupts=from_text(interrupts),
        error=from_text(error),
        owner=owner,
    )
