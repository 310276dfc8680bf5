"""Threads: their rows and their current state. Searching is in `thread_search`."""

from asyncio import shield, wrap_future
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from asyncpg import Record

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
from threadwire.storage.postgres import thread_search
from threadwire.storage.postgres.access_terms import Bindings, and_allows
from threadwire.storage.postgres.checkpoint_maintenance import delete_thread, keep_latest, move_thread
from threadwire.storage.postgres.checkpoint_rows import CheckpointRows
from threadwire.storage.postgres.checkpoints import PostgresCheckpoints
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.flusher import Flusher
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.json_columns import from_text, searchable, to_text, to_text_or_null
from threadwire.storage.postgres.text_columns import escaped, escaped_or_null, unescaped_or_none
from threadwire.storage.postgres.transaction import Transaction
from threadwire.storage.segments import encode

_ROW = f"""t.thread, t.created_at, t.updated_at, {thread_search.STATUS} AS status, t.state_updated_at, t.metadata,
       t.config, t.error, t.ttl_minutes, t.ttl_strategy, t.owner"""
_BARE = f"{_ROW}, NULL AS vals, NULL AS interrupts"
_WITH_STATE = f"{_ROW}, s.vals, s.interrupts"
_THREADS = "threads AS t LEFT JOIN thread_state AS s ON s.thread = t.thread"
# Starts with the terms of the index `threads_expiring`, so that PostgreSQL can use it.
_DUE = """ttl_minutes IS NOT NULL AND (pruned_at IS NULL OR pruned_at < updated_at)
   AND updated_at + ttl_minutes * 60000 <= $1 AND active = 0"""
_INSERT = """INSERT INTO threads (thread, created_at, updated_at, active, status, state_updated_at, metadata, search,
                     config, error, ttl_minutes, ttl_strategy, owner)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::jsonb, $9, $10, $11, $12, $13)"""
_PUT_STATE = """INSERT INTO thread_state (thread, vals, interrupts) VALUES ($1, $2, $3)
ON CONFLICT (thread) DO UPDATE SET vals = excluded.vals, interrupts = excluded.interrupts"""
_CHANGE_STATE = """UPDATE threads
   SET status = $2, error = $3, updated_at = $4, state_updated_at = $4, active = active - $5
 WHERE thread = $1 RETURNING active"""
_DISCARD = """INSERT INTO discarded_threads SELECT thread, $2, metadata, search FROM threads WHERE thread = $1
ON CONFLICT (thread) DO UPDATE SET at = excluded.at, metadata = excluded.metadata, search = excluded.search"""
_NEWEST_CHECKPOINT = "SELECT checkpoint FROM checkpoints WHERE thread = $1 AND ns = '' ORDER BY checkpoint DESC LIMIT 1"


_HOLD = """INSERT INTO thread_holds (thread, worker, until)
VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
ON CONFLICT (thread, worker) DO UPDATE SET until = excluded.until"""


class _StateCommit:
    def __init__(self, applied: "Future[bool]") -> None:
        self._applied = applied

    async def wait(self) -> bool:
        return await shield(wrap_future(self._applied))


class PostgresThreads:
    def __init__(
        self, database: Database, flusher: Flusher, checkpoints: PostgresCheckpoints, clock: Callable[[], int]
    ) -> None:
        self._database = database
        self._flusher = flusher
        self._checkpoints = checkpoints
        self._clock = clock

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

        async def create(transaction: Transaction) -> Thread:
            if not new_id and (await transaction.lock(thread.thread_id)).live:
                existing = await find_thread(transaction.db, thread.thread_id, access=access)
                if existing is not None and if_exists == "do_nothing":
                    return existing
                raise Conflict(f"Thread {thread.thread_id} already exists")
            await insert_thread(transaction, thread)
            if checkpoints_from is not None:
                await move_thread(transaction.db, checkpoints_from, thread.thread_id)
            if entries:
                transaction.append(thread.thread_id, entries)
            return thread

        return await self._database.write(create)

    async def get(
        self, thread_id: ThreadId, *, with_state: bool = True, access: AccessFilter = EVERYTHING
    ) -> Thread | None:
        return await self._database.read(lambda db: find_thread(db, thread_id, with_state=with_state, access=access))

    async def update(
        self,
        thread_id: ThreadId,
        *,
        metadata: dict[str, Any],
        ttl: RequestedTtl = "usual",
        now: int,
        access: AccessFilter = EVERYTHING,
    ) -> Thread:
        async def update(transaction: Transaction) -> Thread:
            await require_thread(transaction, thread_id, access)
            db, thread = transaction.db, key_of(thread_id)
            await db.execute("UPDATE threads SET updated_at = $2 WHERE thread = $1", thread, now)
            if metadata:
                before = await db.fetchval("SELECT metadata FROM threads WHERE thread = $1", thread)
                await set_metadata(db, thread_id, from_text(before) | metadata)
            if ttl != "usual":
                minutes, strategy = (None, None) if ttl is None else (ttl.minutes, ttl.strategy)
                sql = "UPDATE threads SET ttl_minutes = $2, ttl_strategy = $3 WHERE thread = $1"
                await db.execute(sql, thread, minutes, strategy)
            return await load_thread(db, thread_id)

        return await self._flusher.change(thread_id, update)

    async def delete(self, thread_id: ThreadId, *, access: AccessFilter = EVERYTHING) -> None:
        async def delete(transaction: Transaction) -> None:
            await require_thread(transaction, thread_id, access)
            await _delete(transaction, thread_id)

        await self._flusher.change(thread_id, delete)

    async def was_deleted(self, thread_id: ThreadId, *, access: AccessFilter = EVERYTHING) -> bool:
        if access:
            return False
        sql = """SELECT EXISTS (SELECT FROM deleted_threads WHERE thread = $1)
                    AND NOT EXISTS (SELECT FROM threads WHERE thread = $1)"""
        return bool(await self._database.read(lambda db: db.fetchval(sql, key_of(thread_id))))

    async def prune(self, thread_id: ThreadId, now: int, *, access: AccessFilter = EVERYTHING) -> bool:
        async def prune(transaction: Transaction) -> bool:
            await transaction.lock(thread_id)
            bindings = Bindings([key_of(thread_id)])
            allowed = and_allows("search", access, bindings)
            sql = f"SELECT true FROM threads WHERE thread = $1 AND active = 0{allowed}"
            free = bool(await transaction.db.fetchval(sql, *bindings))
            if free:
                await _prune(transaction, thread_id, now)
            return free

        return await self._flusher.change(thread_id, prune)

    async def due(self, now: int, limit: int) -> list[ThreadId]:
        sql = f"SELECT thread FROM threads WHERE {_DUE} ORDER BY updated_at + ttl_minutes * 60000 LIMIT $2"
        rows = await self._database.read(lambda db: db.fetch(sql, now, limit))
        return [ThreadId(name_of(thread)) for (thread,) in rows]

    async def expire(self, thread_id: ThreadId, now: int) -> ExpiryStrategy | None:
        async def expire(transaction: Transaction) -> ExpiryStrategy | None:
            await transaction.lock(thread_id)
            sql = f"SELECT ttl_strategy FROM threads WHERE {_DUE} AND thread = $2"
            strategy: ExpiryStrategy | None = await transaction.db.fetchval(sql, now, key_of(thread_id))
            if strategy == "delete":
                await _delete(transaction, thread_id)
            elif strategy == "keep_latest":
                await _prune(transaction, thread_id, now)
            return strategy

        return await self._flusher.change(thread_id, expire)

    async def search(self, query: ThreadQuery, *, access: AccessFilter = EVERYTHING) -> list[Thread]:
        columns = _WITH_STATE if query.with_state else _BARE
        rows = await self._database.read(lambda db: thread_search.page(db, columns, query, access))
        return [_thread(row) for row in rows]

    async def count(self, query: ThreadQuery, *, access: AccessFilter = EVERYTHING) -> int:
        return await self._database.read(lambda db: thread_search.count(db, query, access))

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
    ) -> _StateCommit:
        entries = encode(drafts, self._clock)
        state = StateColumns(summary)
        rows = CheckpointRows()
        for put in puts:
            rows.add(self._checkpoints.prepare(put))

        async def commit_state(transaction: Transaction) -> bool:
            await require_thread(transaction, thread_id, access)
            sql = "SELECT active FROM threads WHERE thread = $1"
            if transaction.head(thread_id).last > since or await transaction.db.fetchval(sql, key_of(thread_id)):
                return False
            await rows.store(transaction.db)
            await state.write(transaction.db, thread_id, now)
            transaction.append(thread_id, entries)
            return True

        return _StateCommit(self._database.submit(self._flusher.change_here(thread_id, commit_state)))

    async def hold(self, thread_id: ThreadId, lease: Lease) -> None:
        async def hold(transaction: Transaction) -> None:
            await transaction.lock(thread_id)  # no run of the thread is being claimed meanwhile
            worker, milliseconds = escaped(lease.worker), float(lease.milliseconds)
            await transaction.db.execute(_HOLD, key_of(thread_id), worker, milliseconds)

        await self._database.write(hold)

    async def end_hold(self, thread_id: ThreadId, worker: str) -> None:
        async def end_hold(transaction: Transaction) -> None:
            sql = "DELETE FROM thread_holds WHERE thread = $1 AND worker = $2"
            await transaction.db.execute(sql, key_of(thread_id), escaped(worker))
            transaction.hints |= QueueHint.WORK

        await self._database.write(end_hold)

    async def discarded(
        self, *, before: int, exclude: frozenset[ThreadId] = frozenset(), limit: int = 100
    ) -> list[ThreadId]:
        sql = "SELECT thread FROM discarded_threads WHERE at < $1 AND thread <> ALL($2::bytea[]) ORDER BY at LIMIT $3"
        excluded = [key_of(thread_id) for thread_id in exclude]
        rows = await self._database.read(lambda db: db.fetch(sql, before, excluded, limit))
        return [ThreadId(name_of(thread)) for (thread,) in rows]

    async def sweep(self, thread_ids: Sequence[ThreadId]) -> None:
        async def sweep(transaction: Transaction) -> None:
            await transaction.lock_many(thread_ids)
            sql = "DELETE FROM discarded_threads WHERE thread = $1 RETURNING true"
            for thread_id in thread_ids:
                was_discarded = await transaction.db.fetchval(sql, key_of(thread_id))
                if was_discarded and not transaction.head(thread_id).live:
                    await _remove(transaction, thread_id)

        await self._database.write(sweep)


async def _prune(transaction: Transaction, thread_id: ThreadId, now: int) -> None:
    db, thread = transaction.db, key_of(thread_id)
    if await keep_latest(db, thread):
        reset = {"cause": "prune", "checkpoint_id": await db.fetchval(_NEWEST_CHECKPOINT, thread)}
        transaction.append(thread_id, encode([Draft(Kind.STATE_RESET, reset, (), now)], lambda: now))
    await db.execute("UPDATE threads SET pruned_at = $2 WHERE thread = $1", thread, now)


async def _delete(transaction: Transaction, thread_id: ThreadId) -> None:
    """Remove the thread, and remember that it was deleted."""
    await _remove(transaction, thread_id)
    db, thread = transaction.db, key_of(thread_id)
    await db.execute("DELETE FROM deleted_threads WHERE thread = $1", thread)
    number = await db.fetchval("INSERT INTO deleted_threads (thread) VALUES ($1) RETURNING number", thread)
    await db.execute("DELETE FROM deleted_threads WHERE number <= $1", number - REMEMBERED_DELETIONS)


async def _remove(transaction: Transaction, thread_id: ThreadId) -> None:
    for table in ("threads", "thread_state", "runs", "crons"):
        await transaction.db.execute(f"DELETE FROM {table} WHERE thread = $1", key_of(thread_id))
    await delete_thread(transaction.db, thread_id)
    await transaction.forget(thread_id)


async def discard_thread(transaction: Transaction, thread_id: ThreadId, now: int) -> None:
    """Remove the thread, but leave its log and its runs readable until they are swept (5.10)."""
    db, thread = transaction.db, key_of(thread_id)
    await db.execute(_DISCARD, thread, now)
    await db.execute("DELETE FROM threads WHERE thread = $1", thread)
    await db.execute("DELETE FROM thread_state WHERE thread = $1", thread)
    transaction.discard(thread_id)


class StateColumns:
    """A thread's new state, serialized for its columns. Created by the caller, because its objects may change later."""

    def __init__(self, summary: StateSummary) -> None:
        self.status = summary.status
        self.values = to_text_or_null(summary.values)
        self.interrupts = to_text(summary.interrupts)
        self.error = to_text_or_null(summary.error)

    async def write(self, db: Connection, thread_id: ThreadId, now: int, *, ended: int = 0) -> int:
        """Write the state and subtract `ended` from the number of active runs. Returns how many are left."""
        thread = key_of(thread_id)
        await db.execute(_PUT_STATE, thread, self.values, self.interrupts)
        left: int = await db.fetchval(_CHANGE_STATE, thread, self.status, self.error, now, ended)
        return left


async def insert_thread(transaction: Transaction, thread: Thread, *, active: int = 0) -> None:
    """Store a thread that does not exist, and lock it."""
    await transaction.create(thread.thread_id)
    key, metadata = key_of(thread.thread_id), to_text(thread.metadata)
    await transaction.db.execute(
        _INSERT,
        key,
        thread.created_at,
        thread.updated_at,
        active,
        "idle" if thread.status == "busy" else thread.status,
        thread.state_updated_at,
        metadata,
        searchable(metadata),
        to_text(thread.config),
        to_text_or_null(thread.error),
        None if thread.ttl is None else thread.ttl.minutes,
        None if thread.ttl is None else thread.ttl.strategy,
        escaped_or_null(thread.owner),
    )
    if thread.values is not None or thread.interrupts:
        await transaction.db.execute(_PUT_STATE, key, to_text_or_null(thread.values), to_text(thread.interrupts))


async def set_metadata(db: Connection, thread_id: ThreadId, metadata: dict[str, Any]) -> None:
    text = to_text(metadata)
    sql = "UPDATE threads SET metadata = $2, search = $3::jsonb WHERE thread = $1"
    await db.execute(sql, key_of(thread_id), text, searchable(text))


async def require_thread(transaction: Transaction, thread_id: ThreadId, access: AccessFilter) -> None:
    """Lock the thread. Raises `NotFound` unless it exists and is not foreign."""
    head = await transaction.lock(thread_id)
    if not head.live or (
        access and await find_thread(transaction.db, thread_id, with_state=False, access=access) is None
    ):
        raise NotFound(f"Thread {thread_id} not found")


async def find_thread(
    db: Connection, thread_id: ThreadId, *, with_state: bool = True, access: AccessFilter = EVERYTHING
) -> Thread | None:
    bindings = Bindings([key_of(thread_id)])
    allowed = and_allows("t.search", access, bindings)
    columns, table = (_WITH_STATE, _THREADS) if with_state else (_BARE, "threads AS t")
    row = await db.fetchrow(f"SELECT {columns} FROM {table} WHERE t.thread = $1{allowed}", *bindings)
    return None if row is None else _thread(row)


async def load_thread(db: Connection, thread_id: ThreadId) -> Thread:
    thread = await find_thread(db, thread_id)
    if thread is None:
        raise NotFound(f"Thread {thread_id} not found")
    return thread


def _thread(row: Record) -> Thread:
    return Thread(
        thread_id=ThreadId(name_of(row["thread"])),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        status=row["status"],
        state_updated_at=row["state_updated_at"],
        metadata=from_text(row["metadata"]),
        config=from_text(row["config"]),
        values=from_text(row["vals"]),
        interrupts=from_text(row["interrupts"]) or {},
        error=from_text(row["error"]),
        ttl=None if row["ttl_minutes"] is None else Ttl(row["ttl_minutes"], row["ttl_strategy"]),
        owner=unescaped_or_none(row["owner"]),
    )
