"""Runs: accept, claim, cancel and delete them. The allowed status transitions are in `core.run_state`."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import (
    Accepted,
    CancelAction,
    Cancelled,
    Lease,
    NewRun,
    QueueHint,
    QueueLimits,
    Run,
    RunSelection,
    RunStatus,
    Suspects,
)
from threadwire.core.run_state import graph_assignment, metadata_after_acceptance, queue_full, thread_queue_full
from threadwire.errors import Conflict, NotFound, ThreadBusy
from threadwire.storage.postgres.access_terms import RUN_SEARCH, Bindings, and_allows
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.flusher import Flusher
from threadwire.storage.postgres.heartbeats import Heartbeats
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.json_columns import from_text, searchable, to_text, to_text_or_null
from threadwire.storage.postgres.run_claims import (
    anything_due,
    claim_due,
    expire_leases,
    is_held,
    mark_next,
    next_due,
)
from threadwire.storage.postgres.run_endings import anything_lost, cancel_run, encode_at, reclaim_lost
from threadwire.storage.postgres.run_rows import (
    RUNS,
    fetch_runs,
    find_run,
    idempotency_digest,
    insert_run,
    remove_run,
    run_of,
    thread_of,
)
from threadwire.storage.postgres.threads import insert_thread
from threadwire.storage.postgres.transaction import Transaction
from threadwire.storage.queue_hints import QueueHints, QueueWatcher

T = TypeVar("T")

RunList = list[Run]
"""`PostgresRuns` has a method called `list`, which would shadow the type."""


class PostgresRuns:
    def __init__(self, database: Database, flusher: Flusher, heartbeats: Heartbeats, queue_hints: QueueHints) -> None:
        self._database = database
        self._flusher = flusher
        self._heartbeats = heartbeats
        self._queue_hints = queue_hints

    async def accept(self, new: NewRun, *, claim: Lease | None = None, defer_sync: bool = False) -> Accepted:
        if claim is not None:
            self._heartbeats.attend(claim)
        return await self._flusher.change(new.thread_id, lambda transaction: accept_run(transaction, new, claim))

    async def get(self, run_id: RunId, *, access: AccessFilter = EVERYTHING) -> Run | None:
        return await self._database.read(lambda db: find_run(db, run_id, access))

    async def list(
        self,
        thread_id: ThreadId,
        *,
        status: RunStatus | None = None,
        limit: int = 10,
        offset: int = 0,
        access: AccessFilter = EVERYTHING,
    ) -> RunList:
        bindings = Bindings([key_of(thread_id), status])
        allowed = and_allows(RUN_SEARCH, access, bindings)
        sql = f"""{RUNS} WHERE thread = $1 AND ($2::text IS NULL OR status = $2){allowed}
                  ORDER BY position DESC {bindings.page(limit, offset)}"""
        return await self._database.read(lambda db: fetch_runs(db, sql, bindings))

    async def claim(self, limit: int, lease: Lease, *, now: int, suspects: Suspects = "one") -> RunList:
        if limit <= 0 or not await self._database.read(lambda db: anything_due(db, now)):
            return []
        self._heartbeats.attend(lease)
        return await self._database.write(lambda transaction: claim_due(transaction, limit, lease, now, suspects))

    async def next_due(self, *, suspects: Suspects = "one") -> int | None:
        return await self._database.read(lambda db: next_due(db, suspects))

    async def count_active(self) -> dict[RunStatus, int]:
        # Each count uses a partial index that contains only such runs.
        sql = """SELECT (SELECT count(*) FROM runs WHERE status = 'pending'),
                        (SELECT count(*) FROM runs WHERE status = 'running')"""
        row = await self._database.read(lambda db: db.fetchrow(sql))
        assert row is not None
        return {"pending": row[0], "running": row[1]}

    async def cancel(
        self, run_id: RunId, action: CancelAction, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Cancelled | None:
        async def cancel(transaction: Transaction) -> Cancelled | None:
            run = await _lock_run(transaction, run_id, access)
            return await cancel_run(transaction, run, action, now) if run is not None and run.active else None

        return await self._change_thread_of(run_id, cancel)

    async def cancel_many(
        self, wanted: RunSelection, action: CancelAction, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Sequence[Cancelled]:
        await self._flusher.flush()
        return await self._database.write(partial(_cancel_many, wanted, action, now, access))

    async def renew(self, lease: Lease) -> dict[Fence, CancelAction | None]:
        self._heartbeats.attend(lease)
        return await self._database.run(self._heartbeats.renew(lease))

    def watch(self) -> AbstractContextManager[QueueWatcher]:
        return self._queue_hints.watching()

    async def expire_leases(self, worker: str) -> None:
        self._heartbeats.forget(worker)
        await self._database.write(lambda transaction: expire_leases(transaction, worker))

    async def reclaim(self, now: int) -> RunList:
        if not await self._database.read(anything_lost):
            return []
        return await self._database.write(lambda transaction: reclaim_lost(transaction, now))

    async def delete(self, run_id: RunId, *, access: AccessFilter = EVERYTHING) -> None:
        async def delete(transaction: Transaction) -> None:
            run = await _lock_run(transaction, run_id, access)
            if run is None:
                raise NotFound(f"Run {run_id} not found")
            if run.active:
                raise Conflict(f"Run {run_id} is {run.status}; cancel it or wait for it to end")
            await remove_run(transaction.db, run_id)

        await self._change_thread_of(run_id, delete)

    async def _change_thread_of(self, run_id: RunId, change: Callable[[Transaction], Awaitable[T]]) -> T:
        """Execute a change after everything that is queued for the thread of a run."""
        thread_id = await self._database.read(lambda db: thread_of(db, run_id))
        if thread_id is None:
            return await self._database.write(change)
        return await self._flusher.change(thread_id, change)


async def _lock_run(transaction: Transaction, run_id: RunId, access: AccessFilter) -> Run | None:
    """Lock the thread of a run, and return the run as it is then."""
    thread_id = await thread_of(transaction.db, run_id)
    if thread_id is None:
        return None
    await transaction.lock(thread_id)
    return await find_run(transaction.db, run_id, access)


async def _cancel_many(
    wanted: RunSelection, action: CancelAction, now: int, access: AccessFilter, transaction: Transaction
) -> list[Cancelled]:
    bindings = Bindings(
        [
            ["pending", "running"] if wanted.status is None else [wanted.status],
            None if wanted.thread_id is None else key_of(wanted.thread_id),
            None if wanted.run_ids is None else [key_of(run_id) for run_id in wanted.run_ids],
        ]
    )
    where = f"""WHERE status = ANY($1) AND status IN ('pending', 'running') AND ($2::bytea IS NULL OR thread = $2)
                  AND ($3::bytea[] IS NULL OR run = ANY($3)){and_allows(RUN_SEARCH, access, bindings)}"""
    threads = await transaction.db.fetch(f"SELECT DISTINCT thread FROM runs {where}", *bindings)
    await transaction.lock_many({ThreadId(name_of(key)) for (key,) in threads})
    # Runs that were accepted meanwhile on other threads are not locked, so they are not cancelled.
    bindings.append([key for (key,) in threads])
    order = "CASE WHEN status = 'pending' THEN 0 ELSE 1 END, position"
    runs = await fetch_runs(
        transaction.db, f"{RUNS} {where} AND thread = ANY(${len(bindings)}) ORDER BY {order}", bindings
    )
    return [await cancel_run(transaction, run, action, now) for run in runs]


# Accepting


class _ThreadRow(NamedTuple):
    active: int
    metadata: str
    config: str


async def accept_run(transaction: Transaction, new: NewRun, claim: Lease | None) -> Accepted:
    if (repeated := await _find_repeated(transaction.db, new)) is not None:
        return Accepted(repeated, repeated=True)
    await transaction.lock(new.thread_id)
    thread = await _check_admission(transaction, new)
    active = thread is not None and thread.active > 0
    lease = claim if not active and new.due_at <= new.created_at else None
    if lease is not None and await is_held(transaction.db, new.thread_id):
        lease = None
    if lease is None and new.limits is not None:
        await _check_limits(transaction.db, new, new.limits, active=0 if thread is None else thread.active)
    stopping: tuple[RunId, ...] = ()
    if active and new.multitask_strategy in ("interrupt", "rollback"):
        stopping = await _cancel_active(transaction, new, new.multitask_strategy)
        thread = await _check_admission(transaction, new)
    previous = await _update_thread(transaction, thread, new, started=lease is not None)
    run = await _insert(transaction, new, previous, first=not active, lease=lease)
    if lease is not None:
        transaction.hold(run.thread_id, run.fence)
    else:
        transaction.hints |= QueueHint.WORK
        if active:
            await mark_next(transaction.db, new.thread_id)
    return Accepted(run, started=lease is not None, stopping=stopping)


async def _find_repeated(db: Connection, new: NewRun) -> Run | None:
    if new.idempotency_key is None:
        return None
    digest = idempotency_digest(new.owner, new.idempotency_key)
    row = await db.fetchrow(f"{RUNS} WHERE idempotency_digest = $1", digest)
    return None if row is None else run_of(row)


async def _check_admission(transaction: Transaction, new: NewRun) -> _ThreadRow | None:
    """Raise if the run must be rejected. Returns the thread's row, or None if the thread has to be created."""
    sql = """SELECT EXISTS (SELECT 1 FROM runs WHERE run = $2) AS run_exists, active, metadata, config
               FROM (SELECT 1) AS one LEFT JOIN threads ON thread = $1"""
    row = await transaction.db.fetchrow(sql, key_of(new.thread_id), key_of(new.run_id))
    assert row is not None
    run_exists, active, metadata, config = row
    if run_exists:
        raise Conflict(f"Run {new.run_id} already exists")
    is_foreign = bool(new.access) and metadata is not None and not new.access.matches(from_text(metadata))
    if is_foreign or (metadata is None and not new.create_thread):
        raise NotFound(f"Thread {new.thread_id} not found")
    if active and new.multitask_strategy == "reject":
        raise ThreadBusy()
    return None if metadata is None else _ThreadRow(active, metadata, config)


async def _check_limits(db: Connection, new: NewRun, limits: QueueLimits, *, active: int) -> None:
    """Raise `QueueFull` if no further run may be pending. Competing processes may exceed the total by a few runs."""
    if active >= limits.per_thread and new.multitask_strategy not in ("interrupt", "rollback"):
        of_thread = "SELECT count(*) FROM runs WHERE status = 'pending' AND thread = $1"
        if await db.fetchval(of_thread, key_of(new.thread_id)) >= limits.per_thread:
            raise thread_queue_full(limits)
    # No more rows than the limit are read.
    total = "SELECT count(*) FROM (SELECT 1 FROM runs WHERE status = 'pending' LIMIT $1) AS pending"
    if await db.fetchval(total, limits.total) >= limits.total:
        raise queue_full(limits)


async def _cancel_active(transaction: Transaction, new: NewRun, action: CancelAction) -> tuple[RunId, ...]:
    """Cancel the thread's active runs. Returns the running ones, which have yet to stop."""
    thread = key_of(new.thread_id)
    counted = "UPDATE threads SET active = active + $2 WHERE thread = $1"
    await transaction.db.execute(counted, thread, 1)  # count the new run, or the thread might be discarded
    sql = f"{RUNS} WHERE thread = $1 AND status IN ('pending', 'running') ORDER BY position"
    stopping: list[RunId] = []
    for run in await fetch_runs(transaction.db, sql, (thread,)):
        cancelled = await cancel_run(transaction, run, action, new.created_at)
        if not cancelled.ended:
            stopping.append(cancelled.run.run_id)
    await transaction.db.execute(counted, thread, -1)
    return tuple(stopping)


async def _update_thread(
    transaction: Transaction, row: _ThreadRow | None, new: NewRun, *, started: bool
) -> dict[str, Any] | None:
    """Create the thread, or merge the run's metadata and config into it, and count the run as active. Returns the
    previous `graph_id` and `assistant_id` in the thread's metadata, if the run changes them."""
    if row is None:
        await insert_thread(transaction, new.thread(), active=1)
        return None
    before = from_text(row.metadata)
    metadata = metadata_after_acceptance(before, new, started=started)
    text = to_text(metadata)
    await transaction.db.execute(
        """UPDATE threads SET active = active + 1, updated_at = $2, metadata = $3, search = $4::jsonb, config = $5
            WHERE thread = $1""",
        key_of(new.thread_id),
        new.created_at,
        text,
        searchable(text),
        to_text(from_text(row.config) | new.thread_config),
    )
    previous = graph_assignment(before)
    return None if previous == graph_assignment(metadata) else previous


async def _insert(
    transaction: Transaction, new: NewRun, previous: dict[str, Any] | None, *, first: bool, lease: Lease | None
) -> Run:
    if new.preceding:
        transaction.append(new.thread_id, encode_at(new.created_at, *new.preceding))
    queued = transaction.append(new.thread_id, encode_at(new.created_at, new.queued()), new.run_id, 0)
    run = new.row(queued, started=lease is not None)
    await insert_run(
        transaction.db,
        run,
        to_text_or_null(previous),
        first=first and lease is None,
        worker=None if lease is None else lease.worker,
        milliseconds=None if lease is None else lease.milliseconds,
    )
    return run
