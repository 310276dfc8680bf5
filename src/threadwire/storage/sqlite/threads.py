"""Threads: their rows and their current state. Searching is in `thread_search`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import apsw

from threadwire.core.entries import Draft, Kind
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import ExpiryStrategy, Put, RequestedTtl, StateSummary, Thread, ThreadQuery, Ttl
from threadwire.errors import Conflict, NotFound
from threadwire.storage.sqlite import thread_search
from threadwire.storage.sqlite.checkpoint_maintenance import keep_latest, move_thread
from threadwire.storage.sqlite.checkpoints import SqliteCheckpoints
from threadwire.storage.sqlite.keys import key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, read_transaction, to_text, to_text_or_null
from threadwire.storage.sqlite.segments import encode
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.write_jobs import Operation
from threadwire.storage.sqlite.writer import Writer

_ROW = """t.thread, t.created_at, t.updated_at, CASE WHEN t.active > 0 THEN 'busy' ELSE t.status END,
       t.state_updated_at, t.metadata, t.config, t.error, t.ttl_minutes, t.ttl_strategy, t.owner"""
_BARE = f"SELECT {_ROW}, NULL, NULL FROM threads AS t WHERE t.thread = ?"
_WITH_STATE = f"""
SELECT {_ROW}, s.vals, s.interrupts FROM threads AS t LEFT JOIN thread_state AS s ON s.thread = t.thread
 WHERE t.thread = ?
"""
# Starts with the terms of the index `threads_expiring`, so that SQLite can use it.
_DUE = """ttl_minutes IS NOT NULL AND (pruned_at IS NULL OR pruned_at < updated_at)
   AND updated_at + ttl_minutes * 60000 <= ? AND active = 0"""


class _StateCommit:
    def __init__(self, job: Operation[bool]) -> None:
        self._job = job

    async def wait(self) -> bool:
        await self._job.wait_or_raise()
        return self._job.result


class SqliteThreads:
    def __init__(
        self, writer: Writer, readers: Readers, clock: Callable[[], int], checkpoints: SqliteCheckpoints
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._clock = clock
        self._checkpoints = checkpoints

    async def create(
        self,
        thread: Thread,
        *,
        if_exists: str = "raise",
        drafts: Sequence[Draft] = (),
        checkpoints_from: ThreadId | None = None,
    ) -> Thread:
        entries = encode(drafts, self._clock)

        def create(transaction: Transaction) -> Thread:
            if transaction.head(thread.thread_id).exists:
                if if_exists == "do_nothing":
                    return load_thread(transaction.db, thread.thread_id)
                raise Conflict(f"Thread {thread.thread_id} already exists")
            insert_thread(transaction, thread)
            if checkpoints_from is not None:
                move_thread(transaction.db, checkpoints_from, thread.thread_id)
            if entries:
                transaction.append(thread.thread_id, entries)
            return thread

        return await self._writer.do(create)

    async def get(self, thread_id: ThreadId) -> Thread | None:
        with self._readers.lend() as db:
            found = find_thread(db, thread_id)
        await self._writer.sync_barrier()
        return found

    async def update(
        self, thread_id: ThreadId, *, metadata: dict[str, Any], ttl: RequestedTtl = "usual", now: int
    ) -> Thread:
        def update(transaction: Transaction) -> Thread:
            transaction.require(thread_id, None)
            db, thread = transaction.db, key_of(thread_id)
            before = db.execute("SELECT metadata FROM threads WHERE thread = ?", (thread,)).get
            sql = "UPDATE threads SET metadata = ?, updated_at = ? WHERE thread = ?"
            db.execute(sql, (merged(before, metadata), now, thread))
            if ttl != "usual":
                minutes, strategy = (None, None) if ttl is None else (ttl.minutes, ttl.strategy)
                sql = "UPDATE threads SET ttl_minutes = ?, ttl_strategy = ? WHERE thread = ?"
                db.execute(sql, (minutes, strategy, thread))
            return load_thread(transaction.db, thread_id)

        return await self._writer.do(update)

    async def delete(self, thread_id: ThreadId) -> None:
        def delete(transaction: Transaction) -> None:
            transaction.require(thread_id, None)
            _remove(transaction, thread_id)

        await self._writer.do_on_writer_thread(delete)

    async def prune(self, thread_id: ThreadId, now: int) -> bool:
        def prune(transaction: Transaction) -> bool:
            sql = "SELECT 1 FROM threads WHERE thread = ? AND active = 0"
            free = transaction.db.execute(sql, (key_of(thread_id),)).get is not None
            if free:
                _prune(transaction, thread_id, now)
            return free

        return await self._writer.do_on_writer_thread(prune)

    async def due(self, now: int, limit: int) -> list[ThreadId]:
        sql = f"SELECT thread FROM threads WHERE {_DUE} ORDER BY updated_at + ttl_minutes * 60000 LIMIT ?"
        rows = await self._readers.run_in_thread(lambda db: fetch(db, sql, (now, limit)))
        return [ThreadId(name_of(thread)) for (thread,) in rows]

    async def expire(self, thread_id: ThreadId, now: int) -> ExpiryStrategy | None:
        def expire(transaction: Transaction) -> ExpiryStrategy | None:
            sql = f"SELECT ttl_strategy FROM threads WHERE thread = ? AND {_DUE}"
            strategy: ExpiryStrategy | None = transaction.db.execute(sql, (key_of(thread_id), now)).get
            if strategy == "delete":
                _remove(transaction, thread_id)
            elif strategy == "keep_latest":
                _prune(transaction, thread_id, now)
            return strategy

        return await self._writer.do_on_writer_thread(expire)

    async def search(self, query: ThreadQuery) -> list[Thread]:
        found = await self._readers.run_in_thread(partial(_search, query))
        await self._writer.sync_barrier()
        return found

    async def count(self, query: ThreadQuery) -> int:
        found = await self._readers.run_in_thread(partial(_count, query))
        await self._writer.sync_barrier()
        return found

    def commit_state(
        self,
        thread_id: ThreadId,
        summary: StateSummary,
        drafts: Sequence[Draft],
        puts: Sequence[Put] = (),
        *,
        since: Seq,
        now: int,
    ) -> "_StateCommit":
        entries = encode(drafts, self._clock)
        state = StateColumns(summary)
        prepared = [self._checkpoints.prepare(put) for put in puts]

        def commit_state(transaction: Transaction) -> bool:
            transaction.require(thread_id, None)
            sql = "SELECT active FROM threads WHERE thread = ?"
            if transaction.head(thread_id).last > since or transaction.db.execute(sql, (key_of(thread_id),)).get:
                return False
            for put in prepared:
                put.operation(transaction)
            state.write(transaction.db, thread_id, now)
            transaction.append(thread_id, entries)
            return True

        weight = len(state.values or "") + sum(put.weight for put in prepared)
        job = Operation(commit_state, weight=weight)
        self._writer.enqueue(job, urgent=True)
        return _StateCommit(job)

    async def discarded(
        self, *, before: int, exclude: frozenset[ThreadId] = frozenset(), limit: int = 100
    ) -> list[ThreadId]:
        sql = "SELECT thread FROM discarded_threads WHERE at < ? ORDER BY at LIMIT ?"
        with self._readers.lend() as db:
            found = [ThreadId(name_of(key)) for (key,) in fetch(db, sql, (before, limit + len(exclude)))]
        return [thread_id for thread_id in found if thread_id not in exclude][:limit]

    async def sweep(self, thread_ids: Sequence[ThreadId]) -> None:
        def sweep(transaction: Transaction) -> None:
            for thread_id in thread_ids:
                sql = "DELETE FROM discarded_threads WHERE thread = ? RETURNING 1"
                was_discarded = transaction.db.execute(sql, (key_of(thread_id),)).get is not None
                if was_discarded and not transaction.head(thread_id).exists:
                    _remove(transaction, thread_id)

        await self._writer.do_on_writer_thread(sweep)


def _search(query: ThreadQuery, db: apsw.Connection) -> list[Thread]:
    # Most of the rows that a search reads are not on the page, so values are only loaded for those that are.
    with read_transaction(db):
        row = _WITH_STATE if query.with_state else _BARE
        return [_thread(found) for key in thread_search.page(query, db) for found in fetch(db, row, (key,))]


def _count(query: ThreadQuery, db: apsw.Connection) -> int:
    with read_transaction(db):
        return thread_search.count(query, db)


def _prune(transaction: Transaction, thread_id: ThreadId, now: int) -> None:
    db, thread = transaction.db, key_of(thread_id)
    if keep_latest(db, thread):
        sql = "SELECT checkpoint FROM checkpoints WHERE thread = ? AND ns = '' ORDER BY checkpoint DESC LIMIT 1"
        reset = {"cause": "prune", "checkpoint_id": db.execute(sql, (thread,)).get}
        transaction.append(thread_id, encode([Draft(Kind.STATE_RESET, reset, (), now)], lambda: now))
    db.execute("UPDATE threads SET pruned_at = ? WHERE thread = ?", (now, thread))


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
        "fold_snapshots",
    ):
        transaction.db.execute(f"DELETE FROM {table} WHERE thread = ?", (key_of(thread_id),))
    transaction.forget(thread_id)


def discard_thread(transaction: Transaction, thread_id: ThreadId, now: int) -> None:
    """Remove the thread, but leave its log and its runs readable until they are swept (5.10)."""
    thread = key_of(thread_id)
    transaction.db.execute("DELETE FROM threads WHERE thread = ?", (thread,))
    transaction.db.execute("DELETE FROM thread_state WHERE thread = ?", (thread,))
    transaction.db.execute("INSERT OR REPLACE INTO discarded_threads VALUES (?, ?)", (thread, now))
    transaction.discard(thread_id)


class StateColumns:
    """A thread's new state, serialized for its columns. Created by the caller, because its objects may change later."""

    def __init__(self, summary: StateSummary) -> None:
        self.status = summary.status
        self.values = to_text_or_null(summary.values)
        self.interrupts = to_text(summary.interrupts)
        self.error = to_text_or_null(summary.error)

    def write(self, db: apsw.Connection, thread_id: ThreadId, now: int, *, ended: int = 0) -> int:
        """Write the state and subtract `ended` from the number of active runs. Returns how many are left."""
        thread = key_of(thread_id)
        db.execute("INSERT OR REPLACE INTO thread_state VALUES (?, ?, ?)", (thread, self.values, self.interrupts))
        left: int = db.execute(
            """UPDATE threads SET status = ?, error = ?, updated_at = ?, state_updated_at = ?, active = active - ?
                WHERE thread = ? RETURNING active""",
            (self.status, self.error, now, now, ended, thread),
        ).get
        return left


def insert_thread(transaction: Transaction, thread: Thread, *, active: int = 0) -> None:
    key = key_of(thread.thread_id)
    transaction.db.execute(
        """INSERT INTO threads (thread, created_at, updated_at, active, status, state_updated_at, metadata, config,
                                error, ttl_minutes, ttl_strategy, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            key,
            thread.created_at,
            thread.updated_at,
            active,
            "idle" if thread.status == "busy" else thread.status,
            thread.state_updated_at,
            to_text(thread.metadata),
            to_text(thread.config),
            to_text_or_null(thread.error),
            None if thread.ttl is None else thread.ttl.minutes,
            None if thread.ttl is None else thread.ttl.strategy,
            thread.owner,
        ),
    )
    if thread.values is not None or thread.interrupts:
        transaction.db.execute(
            "INSERT INTO thread_state VALUES (?, ?, ?)",
            (key, to_text_or_null(thread.values), to_text(thread.interrupts)),
        )
    transaction.create(thread.thread_id)


def merged(before: str, more: dict[str, Any]) -> str:
    return to_text(from_text(before) | more) if more else before


def find_thread(db: apsw.Connection, thread_id: ThreadId) -> Thread | None:
    for row in fetch(db, _WITH_STATE, (key_of(thread_id),)):
        return _thread(row)
    return None


def load_thread(db: apsw.Connection, thread_id: ThreadId) -> Thread:
    thread = find_thread(db, thread_id)
    if thread is None:
        raise NotFound(f"Thread {thread_id} not found")
    return thread


def _thread(row: tuple[Any, ...]) -> Thread:
    thread, created, updated, status, state_updated, metadata, config, error, minutes, strategy, owner = row[:11]
    values, interrupts = row[11:]
    return Thread(
        thread_id=ThreadId(name_of(thread)),
        created_at=created,
        updated_at=updated,
        status=status,
        state_updated_at=state_updated,
        metadata=from_text(metadata),
        config=from_text(config),
        values=from_text(values),
        interrupts=from_text(interrupts) or {},
        error=from_text(error),
        ttl=None if minutes is None else Ttl(minutes, strategy),
        owner=owner,
    )
