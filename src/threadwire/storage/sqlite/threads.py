"""Threads: their rows and their current state. Searching is in `thread_search`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import apsw

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.entries import Draft, Kind
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import (
    ExpiryStrategy,
    Lease,
    Put,
    QueueHint,
    RequestedTtl,
    StateSummary,
    Thread,
    ThreadQuery,
    Ttl,
)
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import REMEMBERED_DELETIONS
from threadwire.storage.segments import encode
from threadwire.storage.sqlite import thread_search
from threadwire.storage.sqlite.access_terms import and_allows
from threadwire.storage.sqlite.checkpoint_maintenance import keep_latest, move_thread
from threadwire.storage.sqlite.checkpoint_rows import PreparedPut
from threadwire.storage.sqlite.checkpoints import SqliteCheckpoints
from threadwire.storage.sqlite.id_keys import key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, read_transaction, to_text, to_text_or_null
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
        new_id: bool = False,
        drafts: Sequence[Draft] = (),
        checkpoints_from: ThreadId | None = None,
        access: AccessFilter = EVERYTHING,
    ) -> Thread:
        entries = encode(drafts, self._clock)

        def create(transaction: Transaction) -> Thread:
            if not new_id and transaction.head(thread.thread_id).exists:
                existing = find_thread(transaction.db, thread.thread_id, access=access)
                if existing is not None and if_exists == "do_nothing":
                    return existing
                raise Conflict(f"Thread {thread.thread_id} already exists")
            insert_thread(transaction, thread, new_id=new_id)
            if checkpoints_from is not None:
                move_thread(transaction.db, checkpoints_from, thread.thread_id)
            if entries:
                transaction.append(thread.thread_id, entries)
            return thread

        return await self._writer.do(create)

    async def get(
        self, thread_id: ThreadId, *, with_state: bool = True, access: AccessFilter = EVERYTHING
    ) -> Thread | None:
        with self._readers.lend() as db:
            found = find_thread(db, thread_id, with_state=with_state, access=access)
        await self._writer.sync_barrier()
        return found

    async def update(
        self,
        thread_id: ThreadId,
        *,
        metadata: dict[str, Any],
        ttl: RequestedTtl = "usual",
        now: int,
        access: AccessFilter = EVERYTHING,
    ) -> Thread:
        def update(transaction: Transaction) -> Thread:
            require_thread(transaction, thread_id, access)
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

    async def delete(self, thread_id: ThreadId, *, access: AccessFilter = EVERYTHING) -> None:
        def delete(transaction: Transaction) -> None:
            require_thread(transaction, thread_id, access)
            _delete(transaction, thread_id)

        await self._writer.do_on_writer_thread(delete, essential=True)

    async def was_deleted(self, thread_id: ThreadId, *, access: AccessFilter = EVERYTHING) -> bool:
        if access:
            return False
        sql = """SELECT 1 FROM deleted_threads WHERE thread = ?1
                  AND NOT EXISTS (SELECT 1 FROM threads WHERE thread = ?1)"""
        with self._readers.lend() as db:
            return bool(fetch(db, sql, (key_of(thread_id),)))

    async def prune(self, thread_id: ThreadId, now: int, *, access: AccessFilter = EVERYTHING) -> bool:
        def prune(transaction: Transaction) -> bool:
            allowed, bindings = and_allows("metadata", access)
            sql = f"SELECT 1 FROM threads WHERE thread = ? AND active = 0{allowed}"
            free = transaction.db.execute(sql, [key_of(thread_id), *bindings]).get is not None
            if free:
                _prune(transaction, thread_id, now)
            return free

        return await self._writer.do_on_writer_thread(prune, essential=True)

    async def due(self, now: int, limit: int) -> list[ThreadId]:
        sql = f"SELECT thread FROM threads WHERE {_DUE} ORDER BY updated_at + ttl_minutes * 60000 LIMIT ?"
        rows = await self._readers.run_in_thread(lambda db: fetch(db, sql, (now, limit)))
        return [ThreadId(name_of(thread)) for (thread,) in rows]

    async def expire(self, thread_id: ThreadId, now: int) -> ExpiryStrategy | None:
        def expire(transaction: Transaction) -> ExpiryStrategy | None:
            sql = f"SELECT ttl_strategy FROM threads WHERE thread = ? AND {_DUE}"
            strategy: ExpiryStrategy | None = transaction.db.execute(sql, (key_of(thread_id), now)).get
            if strategy == "delete":
                _delete(transaction, thread_id)
            elif strategy == "keep_latest":
                _prune(transaction, thread_id, now)
            return strategy

        return await self._writer.do_on_writer_thread(expire, essential=True)

    async def search(self, query: ThreadQuery, *, access: AccessFilter = EVERYTHING) -> list[Thread]:
        found = await self._readers.run_in_thread(partial(_search, query, access))
        await self._writer.sync_barrier()
        return found

    async def count(self, query: ThreadQuery, *, access: AccessFilter = EVERYTHING) -> int:
        found = await self._readers.run_in_thread(partial(_count, query, access))
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
        access: AccessFilter = EVERYTHING,
    ) -> "_StateCommit":
        prepared = [self._checkpoints.prepare(put) for put in puts]
        return self.commit_prepared(thread_id, summary, drafts, prepared, since=since, now=now, access=access)

    def commit_prepared(
        self,
        thread_id: ThreadId,
        summary: StateSummary,
        drafts: Sequence[Draft],
        prepared: Sequence[PreparedPut],
        *,
        since: Seq,
        now: int,
        access: AccessFilter = EVERYTHING,
    ) -> "_StateCommit":
        """`commit_state` with puts that are serialized already."""
        entries = encode(drafts, self._clock)
        state = StateColumns(summary)

        def commit_state(transaction: Transaction) -> bool:
            require_thread(transaction, thread_id, access)
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

    async def hold(self, thread_id: ThreadId, lease: Lease) -> None:
        self._writer.holds.hold(thread_id, lease)

    async def end_hold(self, thread_id: ThreadId, worker: str) -> None:
        self._writer.holds.end(thread_id, worker)
        self._writer.queue_hints.hint(QueueHint.WORK)

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

        await self._writer.do_on_writer_thread(sweep, essential=True)


def _search(query: ThreadQuery, access: AccessFilter, db: apsw.Connection) -> list[Thread]:
    # Most of the rows that a search reads are not on the page, so values are only loaded for those that are.
    with read_transaction(db):
        row = _WITH_STATE if query.with_state else _BARE
        return [_thread(found) for key in thread_search.page(query, db, access) for found in fetch(db, row, (key,))]


def _count(query: ThreadQuery, access: AccessFilter, db: apsw.Connection) -> int:
    with read_transaction(db):
        return thread_search.count(query, db, access)


def _prune(transaction: Transaction, thread_id: ThreadId, now: int) -> None:
    db, thread = transaction.db, key_of(thread_id)
    if keep_latest(db, thread):
        sql = "SELECT checkpoint FROM checkpoints WHERE thread = ? AND ns = '' ORDER BY checkpoint DESC LIMIT 1"
        reset = {"cause": "prune", "checkpoint_id": db.execute(sql, (thread,)).get}
        transaction.append(thread_id, encode([Draft(Kind.STATE_RESET, reset, (), now)], lambda: now))
    db.execute("UPDATE threads SET pruned_at = ? WHERE thread = ?", (now, thread))


def _delete(transaction: Transaction, thread_id: ThreadId) -> None:
    """Remove the thread, and remember that it was deleted."""
    _remove(transaction, thread_id)
    db = transaction.db
    db.execute("DELETE FROM deleted_threads WHERE thread = ?", (key_of(thread_id),))
    db.execute("INSERT INTO deleted_threads (thread) VALUES (?)", (key_of(thread_id),))
    db.execute("DELETE FROM deleted_threads WHERE number <= last_insert_rowid() - ?", (REMEMBERED_DELETIONS,))


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
    db, thread = transaction.db, key_of(thread_id)
    discarded = "INSERT OR REPLACE INTO discarded_threads SELECT thread, ?, metadata FROM threads WHERE thread = ?"
    db.execute(discarded, (now, thread))
    db.execute("DELETE FROM threads WHERE thread = ?", (thread,))
    db.execute("DELETE FROM thread_state WHERE thread = ?", (thread,))
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


_INSERT_THREAD = """INSERT INTO threads (thread, created_at, updated_at, active, status, state_updated_at, metadata,
                                     config, error, ttl_minutes, ttl_strategy, owner)"""


def insert_thread(transaction: Transaction, thread: Thread, *, active: int = 0, new_id: bool = False) -> None:
    key = key_of(thread.thread_id)
    # Not on `transaction.db`: if this is all that the transaction does, it needs neither BEGIN nor COMMIT.
    transaction.insert(
        _INSERT_THREAD,
        12,
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
    if new_id:
        transaction.create_new(thread.thread_id)
    else:
        transaction.create(thread.thread_id)


def merged(before: str, more: dict[str, Any]) -> str:
    return to_text(from_text(before) | more) if more else before


def require_thread(transaction: Transaction, thread_id: ThreadId, access: AccessFilter) -> None:
    """Raise `NotFound` unless the thread exists and is not foreign."""
    transaction.require(thread_id, None)
    if access and find_thread(transaction.db, thread_id, with_state=False, access=access) is None:
        raise NotFound(f"Thread {thread_id} not found")


def find_thread(
    db: apsw.Connection, thread_id: ThreadId, *, with_state: bool = True, access: AccessFilter = EVERYTHING
) -> Thread | None:
    for row in fetch(db, _WITH_STATE if with_state else _BARE, [key_of(thread_id)]):
        thread = _thread(row)
        return thread if access.matches(thread.metadata) else None
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
