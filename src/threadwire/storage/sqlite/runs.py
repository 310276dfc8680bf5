"""Runs: accept, claim, cancel and end them. The allowed status transitions are in `core.run_state`.

Every method that changes something is one job in the writer's queue. So it is atomic, and takes effect after everything
that was appended before it.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from heapq import merge
from operator import itemgetter
from typing import Any, NamedTuple

import apsw

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.entries import Draft, Fence, Kind
from threadwire.core.ids import AssistantId, RunId, Seq, ThreadId
from threadwire.core.records import (
    Accepted,
    CancelAction,
    Cancelled,
    Ending,
    Lease,
    NewRun,
    QueueHint,
    QueueLimits,
    Run,
    RunSelection,
    RunStatus,
    Suspects,
)
from threadwire.core.run_state import (
    MAX_ATTEMPTS_ERROR,
    MAX_CRASHES,
    SUSPECT_CRASHES,
    assignment_by,
    can_transition,
    cancelled_ending,
    graph_assignment,
    is_suspect,
    metadata_after_acceptance,
    metadata_after_rollback,
    queue_full,
    thread_queue_full,
    user_interrupt_error,
)
from threadwire.errors import Conflict, NotFound, RollbackDue, ThreadBusy
from threadwire.storage.local_leases import LocalHolds, LocalLeases
from threadwire.storage.queue_hints import QueueWatcher
from threadwire.storage.segments import encode
from threadwire.storage.sqlite.access_terms import RUN_METADATA, and_allows
from threadwire.storage.sqlite.checkpoint_maintenance import delete_checkpoints_of
from threadwire.storage.sqlite.deliveries import enqueue_delivery
from threadwire.storage.sqlite.id_keys import key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, to_text, to_text_or_null
from threadwire.storage.sqlite.threads import StateColumns, discard_thread, insert_thread, merged
from threadwire.storage.sqlite.transaction import HEAD_COLUMNS, Transaction
from threadwire.storage.sqlite.write_jobs import DeferredCommit, Operation
from threadwire.storage.sqlite.writer import Writer

RunList = list[Run]
"""`SqliteRuns` has a method called `list`, which would shadow the type."""

_COLUMNS = """run, thread, assistant, graph_id, status, created_at, updated_at, due_at, queued_seq, multitask, attempt,
  crashes, cancel, metadata, kwargs, error, ended_seq, idempotency_key, request_digest, temporary, webhook,
  started_at, owner, via"""
_DUE_AT = 7
_RUNS = f"SELECT {_COLUMNS} FROM runs "
_CLAIMABLE = "status = 'pending' AND first = 1"
# Exactly as in the partial indexes, or SQLite would not use them.
_UNDELAYED = "due_at <= created_at"
_DELAYED = "due_at > created_at"
_CANCELLED = "SELECT run, cancel FROM runs WHERE status = 'running' AND cancel IS NOT NULL"
_SUSPECT_RUNNING = f"EXISTS (SELECT 1 FROM runs WHERE status = 'running' AND crashes >= {SUSPECT_CRASHES})"
_MAY_CLAIM: dict[Suspects, str] = {
    # A suspect that waits for a running suspect is claimed when that one ends, not at a given time.
    "one": f"(crashes < {SUSPECT_CRASHES} OR NOT {_SUSPECT_RUNNING})",
    "none": f"crashes < {SUSPECT_CRASHES}",
    "only": f"crashes >= {SUSPECT_CRASHES}",
}


class SqliteRuns:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def accept(self, new: NewRun, *, claim: Lease | None = None, defer_sync: bool = False) -> Accepted:
        job = await self._writer.do_until_written(
            partial(accept_run, new, claim, self._writer.holds), defer_sync=defer_sync
        )
        return await committed(job.result, job, defer_sync=defer_sync)

    async def get(self, run_id: RunId, *, access: AccessFilter = EVERYTHING) -> Run | None:
        with self._readers.lend() as db:
            found = _find(db, run_id, access)
        await self._writer.sync_barrier()
        return found

    async def list(
        self,
        thread_id: ThreadId,
        *,
        status: RunStatus | None = None,
        limit: int = 10,
        offset: int = 0,
        access: AccessFilter = EVERYTHING,
    ) -> RunList:
        allowed, extra = and_allows(RUN_METADATA, access)
        sql = (
            _RUNS
            + f"""WHERE thread = ?1 AND (?2 IS NULL OR status = ?2){allowed}
                          ORDER BY position DESC LIMIT ? OFFSET ?"""
        )
        bindings = [key_of(thread_id), status, *extra, limit, offset]
        found = await self._readers.run_in_thread(lambda db: [_run(row) for row in fetch(db, sql, bindings)])
        await self._writer.sync_barrier()
        return found

    async def claim(self, limit: int, lease: Lease, *, now: int, suspects: Suspects = "one") -> RunList:
        wanted = _Wanted(limit, now, suspects)
        with self._readers.lend() as db:
            # Workers poll often, and usually nothing is due. That must not cost a write transaction.
            if not _due(db, wanted, self._writer.holds):
                return []
        return await self._writer.do(partial(_claim, wanted, lease, self._writer.holds))

    async def next_due(self, *, suspects: Suspects = "one") -> int | None:
        may = f"{_CLAIMABLE} AND {_MAY_CLAIM[suspects]}"
        sql = f"SELECT thread, due_at FROM runs WHERE {may} AND {{}} ORDER BY due_at LIMIT ?"
        excluded = set(map(key_of, self._writer.holds.held_threads()))
        enough = (len(excluded) + 1,)  # a thread has at most one of each kind
        with self._readers.lend() as db:
            first = [*fetch(db, sql.format(_UNDELAYED), enough), *fetch(db, sql.format(_DELAYED), enough)]
        return min((due_at for thread, due_at in first if thread not in excluded), default=None)

    async def count_active(self) -> dict[RunStatus, int]:
        # Each count uses a partial index that contains only such runs.
        sql = """SELECT (SELECT count(*) FROM runs WHERE status = 'pending'),
                        (SELECT count(*) FROM runs WHERE status = 'running')"""
        [(pending, running)] = await self._readers.run_in_thread(lambda db: list(db.execute(sql)))
        return {"pending": pending, "running": running}

    async def cancel(
        self, run_id: RunId, action: CancelAction, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Cancelled | None:
        def cancel(transaction: Transaction) -> Cancelled | None:
            run = _find(transaction.db, run_id, access)
            return _cancel(transaction, run, action, now) if run is not None and run.active else None

        return await self._writer.do(cancel, essential=True)

    async def cancel_many(
        self, wanted: RunSelection, action: CancelAction, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Sequence[Cancelled]:
        return await self._writer.do(partial(_cancel_many, wanted, action, now, access), essential=True)

    async def renew(self, lease: Lease) -> dict[Fence, CancelAction | None]:
        self._writer.holds.renew(lease)
        renewed = self._writer.leases.renew(lease)
        held = set(self._writer.held_fences())
        cancelled: dict[RunId, CancelAction] = {}
        if not held.isdisjoint(renewed):
            with self._readers.lend() as db:
                cancelled = {RunId(name_of(run)): action for run, action in fetch(db, _CANCELLED)}
        return {fence: cancelled.get(fence.run_id) for fence in renewed if fence in held}

    def watch(self) -> AbstractContextManager[QueueWatcher]:
        return self._writer.queue_hints.watching()

    async def expire_leases(self, worker: str) -> None:
        self._writer.leases.expire(worker)
        self._writer.holds.expire(worker)
        self._writer.queue_hints.hint(QueueHint.WORK)

    async def reclaim(self, now: int) -> RunList:
        leases = self._writer.leases
        if all(map(leases.is_live, self._writer.held_fences())):  # the usual case, which must not cost a transaction
            return []
        return await self._writer.do(partial(_reclaim, leases, now), essential=True)

    async def delete(self, run_id: RunId, *, access: AccessFilter = EVERYTHING) -> None:
        def delete(transaction: Transaction) -> None:
            run = _find(transaction.db, run_id, access)
            if run is None:
                raise NotFound(f"Run {run_id} not found")
            if run.active:
                raise Conflict(f"Run {run_id} is {run.status}; cancel it or wait for it to end")
            _remove(transaction.db, run_id)

        await self._writer.do(delete, essential=True)


# Accepting


async def committed(accepted: Accepted, job: Operation[Any], *, defer_sync: bool = False) -> Accepted:
    """Return a claimed run immediately, with the commit to wait for; return any other run once it is durable."""
    if accepted.started:
        return replace(accepted, commit=DeferredCommit(job, defer_sync=defer_sync))
    await job.wait_or_raise()
    return accepted


def accept_run(new: NewRun, claim: Lease | None, holds: LocalHolds, transaction: Transaction) -> Accepted:
    if (repeated := _find_repeated(transaction.db, new)) is not None:
        return Accepted(repeated, repeated=True)
    thread = _check_admission(transaction, new)
    active = thread is not None and thread.active > 0
    free = not active and new.thread_id not in holds.held_threads()
    lease = claim if free and new.due_at <= new.created_at else None
    started = lease is not None
    if not started and new.limits is not None:
        _check_limits(transaction.db, new, new.limits, active=0 if thread is None else thread.active)
    stopping: tuple[RunId, ...] = ()
    if active and new.multitask_strategy in ("interrupt", "rollback"):
        stopping = _cancel_active(transaction, new, new.multitask_strategy)
        thread = _check_admission(transaction, new)
    previous = _update_thread(transaction, thread, new, started=started)
    run = _insert(transaction, new, previous, first=not active and not started, started=started)
    if lease is not None:
        transaction.hold(run.thread_id, run.fence, lease)
    else:
        transaction.hints |= QueueHint.WORK
        if active:
            _mark_next(transaction.db, new.thread_id)
    return Accepted(run, started=started, stopping=stopping)


def _find_repeated(db: apsw.Connection, new: NewRun) -> Run | None:
    if new.idempotency_key is None:
        return None
    sql = _RUNS + "WHERE ifnull(owner, x'') = ifnull(?, x'') AND idempotency_key = ?"
    return _one(db, sql, (new.owner, new.idempotency_key))


class _ThreadRow(NamedTuple):
    active: int
    metadata: str
    config: str


# One subquery per value: for an outer join SQLite would build a temporary table, at ten times the cost.
_ADMISSION = f"""SELECT EXISTS (SELECT 1 FROM runs WHERE run = ?2),
       (SELECT active FROM threads WHERE thread = ?1),
       (SELECT metadata FROM threads WHERE thread = ?1),
       (SELECT config FROM threads WHERE thread = ?1), {HEAD_COLUMNS}"""


def _check_admission(transaction: Transaction, new: NewRun) -> _ThreadRow | None:
    """Raise if the run must be rejected. Returns the thread's row, or None if the thread has to be created."""
    keys = key_of(new.thread_id), key_of(new.run_id)
    [(run_exists, active, metadata, config, *head)] = transaction.db.execute(_ADMISSION, keys)
    transaction.use_head(new.thread_id, *head)
    if run_exists:
        raise Conflict(f"Run {new.run_id} already exists")
    is_foreign = bool(new.access) and metadata is not None and not new.access.matches(from_text(metadata))
    if is_foreign or (metadata is None and not new.create_thread):
        raise NotFound(f"Thread {new.thread_id} not found")
    if active and new.multitask_strategy == "reject":
        raise ThreadBusy()
    return None if metadata is None else _ThreadRow(active, metadata, config)


def _check_limits(db: apsw.Connection, new: NewRun, limits: QueueLimits, *, active: int) -> None:
    """Raise `QueueFull` if no further run may be pending. Both counts read an index that contains only pending runs."""
    if active >= limits.per_thread and new.multitask_strategy not in ("interrupt", "rollback"):
        of_thread = "SELECT count(*) FROM runs WHERE status = 'pending' AND thread = ?"
        if db.execute(of_thread, (key_of(new.thread_id),)).get >= limits.per_thread:
            raise thread_queue_full(limits)
    if db.execute("SELECT count(*) FROM runs WHERE status = 'pending'").get >= limits.total:
        raise queue_full(limits)


def _cancel_active(transaction: Transaction, new: NewRun, action: CancelAction) -> tuple[RunId, ...]:
    """Cancel the thread's active runs. Returns the running ones, which have yet to stop."""
    thread = key_of(new.thread_id)
    counted = "UPDATE threads SET active = active + ? WHERE thread = ?"
    transaction.db.execute(counted, (1, thread))  # count the new run, or the thread might be discarded
    sql = _RUNS + "WHERE thread = ? AND status IN ('pending', 'running') ORDER BY position"
    stopping: list[RunId] = []
    for row in fetch(transaction.db, sql, (thread,)):
        cancelled = _cancel(transaction, _run(row), action, new.created_at)
        if not cancelled.ended:
            stopping.append(cancelled.run.run_id)
    transaction.db.execute(counted, (-1, thread))
    return tuple(stopping)


def _update_thread(
    transaction: Transaction, row: _ThreadRow | None, new: NewRun, *, started: bool
) -> dict[str, Any] | None:
    """Create the thread, or merge the run's metadata and config into it, and count the run as active. Returns the
    previous `graph_id` and `assistant_id` in the thread's metadata, if the run changes them."""
    thread = key_of(new.thread_id)
    if row is None:
        insert_thread(transaction, new.thread(), active=1)
        return None
    before = from_text(row.metadata)
    metadata = metadata_after_acceptance(before, new, started=started)
    transaction.db.execute(
        "UPDATE threads SET active = active + 1, updated_at = ?, metadata = ?, config = ? WHERE thread = ?",
        (new.created_at, to_text(metadata), merged(row.config, new.thread_config), thread),
    )
    previous = graph_assignment(before)
    return None if previous == graph_assignment(metadata) else previous


def _insert(
    transaction: Transaction, new: NewRun, previous: dict[str, Any] | None, *, first: bool, started: bool
) -> Run:
    if new.preceding:
        transaction.append(new.thread_id, _encode_at(new.created_at, *new.preceding))
    queued = transaction.append(new.thread_id, _encode_at(new.created_at, new.queued()), new.run_id, 0)
    run = new.row(queued, started=started)
    transaction.db.execute(
        f"INSERT INTO runs ({_COLUMNS}, first, thread_was)"
        " VALUES (?,?,?,?,?,?,?,?,?,?,?,0,NULL,?,?,NULL,NULL,?,?,?,?,?,?,?,?,?)",
        (
            key_of(run.run_id),
            key_of(run.thread_id),
            key_of(run.assistant_id),
            run.graph_id,
            run.status,
            run.created_at,
            run.updated_at,
            run.due_at,
            queued,
            run.multitask_strategy,
            run.attempt,
            to_text(run.metadata),
            to_text(run.kwargs),
            run.idempotency_key,
            run.request_digest,
            run.temporary,
            run.webhook,
            run.started_at,
            run.owner,
            run.via,
            first,
            to_text_or_null(previous),
        ),
    )
    return run


# Claiming


class _Wanted(NamedTuple):
    """Which runs a worker claims."""

    limit: int
    now: int
    suspects: Suspects


def _claim(wanted: _Wanted, lease: Lease, holds: LocalHolds, transaction: Transaction) -> RunList:
    return [_start(transaction, run, lease, wanted.now) for run in _due(transaction.db, wanted, holds)]


def _due(db: apsw.Connection, wanted: _Wanted, holds: LocalHolds) -> RunList:
    """Return the runs to claim now. Reads few other rows, because the indexes contain only claimable runs."""
    limit, now, suspects = wanted
    found: list[Run] = []
    excluded = holds.held_threads()
    suspect_taken = False
    candidates = f"SELECT {_COLUMNS}, position FROM runs WHERE {_CLAIMABLE} AND {_MAY_CLAIM[suspects]} AND "
    undelayed = db.execute(f"{candidates} {_UNDELAYED} ORDER BY due_at, position")
    delayed = db.execute(f"{candidates} {_DELAYED} AND due_at <= ? ORDER BY due_at, position", (now,))
    for *row, _ in merge(undelayed, delayed, key=itemgetter(_DUE_AT, -1)) if limit > 0 else ():
        run = _run(row)
        if run.thread_id in excluded:
            continue
        if suspects == "one" and is_suspect(run.crashes):
            if suspect_taken:
                continue
            suspect_taken = True
        found.append(run)
        excluded.add(run.thread_id)
        if len(found) == limit:
            break
    undelayed.close()
    delayed.close()
    return found


def _start(transaction: Transaction, run: Run, lease: Lease, now: int) -> Run:
    due_at = min(run.due_at, run.created_at)
    started = replace(run, status="running", attempt=run.attempt + 1, due_at=due_at, updated_at=now, started_at=now)
    transaction.db.execute(
        """UPDATE runs SET status = 'running', attempt = ?, due_at = ?, updated_at = ?, started_at = ?, first = 0
            WHERE run = ?""",
        (started.attempt, due_at, now, now, key_of(run.run_id)),
    )
    transaction.db.execute(_CLEAR_NEXT, (key_of(run.thread_id),))
    if started.attempt == 1:
        _assign_graph(transaction.db, run)
    transaction.hold(run.thread_id, started.fence, lease)
    return started


def _assign_graph(db: apsw.Connection, run: Run) -> None:
    """Assign the run's graph and assistant to its thread (5.11), and note the previous ones for a rollback."""
    thread = key_of(run.thread_id)
    text = db.execute("SELECT metadata FROM threads WHERE thread = ?", (thread,)).get
    if text is None:  # a run that an older version left without its thread
        return
    metadata = from_text(text)
    previous, assigned = graph_assignment(metadata), assignment_by(run)
    if previous != assigned:
        db.execute("UPDATE threads SET metadata = ? WHERE thread = ?", (to_text(metadata | assigned), thread))
        db.execute("UPDATE runs SET thread_was = ? WHERE run = ?", (to_text(previous), key_of(run.run_id)))


def _mark_next(db: apsw.Connection, thread_id: ThreadId) -> None:
    """Mark the runs of the thread that may start next, if no run of it is running (5.8)."""
    thread = key_of(thread_id)
    db.execute(_CLEAR_NEXT, (thread,))
    db.execute(
        f"""UPDATE runs SET first = 1
             WHERE position IN ((SELECT position FROM runs WHERE thread = ?1 AND status = 'pending' AND {_UNDELAYED}
                                  ORDER BY position LIMIT 1),
                                (SELECT position FROM runs WHERE thread = ?1 AND status = 'pending' AND {_DELAYED}
                                    AND NOT EXISTS (SELECT 1 FROM runs
                                                     WHERE thread = ?1 AND status = 'pending' AND attempt > 0)
                                  ORDER BY due_at, position LIMIT 1))
               AND NOT EXISTS (SELECT 1 FROM runs WHERE thread = ?1 AND status = 'running')""",
        (thread,),
    )


_CLEAR_NEXT = "UPDATE runs SET first = 0 WHERE thread = ? AND status = 'pending' AND first = 1"


# Stopping and ending


def _cancel(transaction: Transaction, run: Run, action: CancelAction, now: int) -> Cancelled:
    if run.status == "pending":
        return Cancelled(_ended(transaction, run, cancelled_ending(run, action), now), ended=True)
    if run.cancel is not None:
        return Cancelled(run, ended=False)
    transaction.db.execute(
        "UPDATE runs SET cancel = ?, updated_at = ? WHERE run = ?", (action, now, key_of(run.run_id))
    )
    transaction.hints |= QueueHint.STOPS
    return Cancelled(replace(run, cancel=action, updated_at=now), ended=False)


def _cancel_many(
    wanted: RunSelection, action: CancelAction, now: int, access: AccessFilter, transaction: Transaction
) -> list[Cancelled]:
    runs: RunList = []
    allowed, bindings = and_allows(RUN_METADATA, access)
    for status in ("pending", "running") if wanted.status is None else (wanted.status,):
        # Name the index of the few active runs: to get the order, SQLite would prefer to scan all runs.
        sql = f"{_RUNS} INDEXED BY runs_{status} WHERE status = '{status}' AND (?1 IS NULL OR thread = ?1){allowed}"
        sql += " ORDER BY position"
        thread = None if wanted.thread_id is None else key_of(wanted.thread_id)
        runs += [_run(row) for row in fetch(transaction.db, sql, [thread, *bindings])]
    named = None if wanted.run_ids is None else frozenset(wanted.run_ids)
    return [_cancel(transaction, run, action, now) for run in runs if named is None or run.run_id in named]


def _ended(transaction: Transaction, run: Run, ending: Ending, now: int) -> Run:
    """End a run that no worker executes, and return it as it ended. Stores its `crashes`, which may have changed."""
    assert can_transition(run.status, ending.status)
    if not ending.rollback:
        transaction.db.execute("UPDATE runs SET crashes = ? WHERE run = ?", (run.crashes, key_of(run.run_id)))
    seq = end_run(transaction, run.thread_id, run.fence, ending, now)
    return replace(run, status=ending.status, error=ending.error, ended_seq=seq, updated_at=now)


def end_run(
    transaction: Transaction, thread_id: ThreadId, fence: Fence, ending: Ending, now: int, *, force: bool = True
) -> Seq:
    """End a run: write its last entry, its row and the state of its thread (5.3). Every run ends here. Raises
    `RollbackDue` if the run must be rolled back but ends otherwise, unless `force`."""
    if ending.rollback:
        seq, left, temporary, webhook_run = _roll_back(transaction, thread_id, fence, ending, now)
    else:
        seq, left, temporary, webhook_run = _close(transaction, thread_id, fence, ending, now, force=force)
    if transaction.head(thread_id).holder == fence:
        transaction.release(thread_id)
    if webhook_run is not None:
        enqueue_delivery(transaction.db, webhook_run, now, values_of=None if ending.rollback else thread_id)
    if left:
        _mark_next(transaction.db, thread_id)
        transaction.hints |= QueueHint.WORK
    elif temporary:
        discard_thread(transaction, thread_id, now)
    return seq


_EndedRun = tuple[Seq, int, bool, Run | None]
"""The last seq of the run, the number of active runs left on its thread, whether the run was temporary, and the ended
run if its webhook must be delivered."""


def _close(
    transaction: Transaction, thread_id: ThreadId, fence: Fence, ending: Ending, now: int, *, force: bool
) -> _EndedRun:
    db = transaction.db
    seq = Seq(transaction.head(thread_id).last + 1)
    closed = db.execute(
        "UPDATE runs SET status = ?, error = ?, ended_seq = ?, updated_at = ?, first = 0"
        " WHERE run = ? AND (? OR cancel IS NOT 'rollback') RETURNING temporary, webhook",
        (ending.status, to_text_or_null(ending.error), seq, now, key_of(fence.run_id), force),
    ).get
    if closed is None:
        raise RollbackDue
    transaction.append(thread_id, _encode_at(now, ending.entry(now)), fence.run_id, fence.attempt)
    temporary, webhook = closed
    webhook_run = None if webhook is None else _find(db, fence.run_id)
    if ending.summary is not None:
        return seq, StateColumns(ending.summary).write(db, thread_id, now, ended=1), temporary, webhook_run
    if not ending.started:
        return seq, _count_ended(db, thread_id, now), temporary, webhook_run
    status = {"error": "error", "timeout": "error", "interrupted": "interrupted"}.get(ending.status, "idle")
    left = db.execute(
        "UPDATE threads SET status = ?, error = ?, active = active - 1, updated_at = ? WHERE thread = ?"
        " RETURNING active",
        (status, to_text_or_null(ending.error), now, key_of(thread_id)),
    ).get
    return seq, left, temporary, webhook_run


def _count_ended(db: apsw.Connection, thread_id: ThreadId, now: int) -> int:
    """Count a run as ended without changing the thread's state. Returns the number of active runs left."""
    sql = "UPDATE threads SET active = active - 1, updated_at = ? WHERE thread = ? RETURNING active"
    left: int = db.execute(sql, (now, key_of(thread_id))).get
    return left


def _roll_back(transaction: Transaction, thread_id: ThreadId, fence: Fence, ending: Ending, now: int) -> _EndedRun:
    """Remove everything of the run except its entries (5.9)."""
    reset = Draft(Kind.STATE_RESET, {"cause": "rollback"})
    ended = Draft(Kind.RUN_ENDED, {"status": "rolled_back"})
    seq = transaction.append(thread_id, _encode_at(now, reset, ended), fence.run_id, fence.attempt)
    if fence.attempt > 0:
        delete_checkpoints_of(transaction.db, thread_id, fence.run_id)
    run = _find(transaction.db, fence.run_id)
    assert run is not None, "a run that ends has a row"
    _restore_metadata(transaction.db, run)
    _remove(transaction.db, fence.run_id)
    left = _count_ended(transaction.db, thread_id, now)
    error = user_interrupt_error("rollback")
    rolled_back = replace(run, status=ending.status, error=error, ended_seq=seq, updated_at=now)
    return seq, left, run.temporary, None if run.webhook is None else rolled_back


def _restore_metadata(db: apsw.Connection, run: Run) -> None:
    """Restore the thread's previous `graph_id` and `assistant_id`. If another run has started since, hand them over to
    it instead, to be restored when that one is rolled back."""
    previous = db.execute("SELECT thread_was FROM runs WHERE run = ?", (key_of(run.run_id),)).get
    if previous is None:
        return
    thread = key_of(run.thread_id)
    sql = """UPDATE runs SET thread_was = ?1
              WHERE thread = ?2 AND status IN ('pending', 'running') AND attempt > 0 AND thread_was = ?3 RETURNING 1"""
    if db.execute(sql, (previous, thread, to_text(assignment_by(run)))).get is None:
        metadata = from_text(db.execute("SELECT metadata FROM threads WHERE thread = ?", (thread,)).get)
        restored = to_text(metadata_after_rollback(metadata, run, from_text(previous)))
        db.execute("UPDATE threads SET metadata = ? WHERE thread = ?", (restored, thread))


def return_to_queue(transaction: Transaction, thread_id: ThreadId, run_id: RunId, crashes: str, now: int) -> None:
    """Return a run to the queue. It keeps its turn, because neither its due time nor its position has changed."""
    transaction.release(thread_id)
    transaction.db.execute(
        f"UPDATE runs SET status = 'pending', crashes = {crashes}, updated_at = ? WHERE run = ?",
        (now, key_of(run_id)),
    )
    _mark_next(transaction.db, thread_id)
    transaction.hints |= QueueHint.WORK


def _reclaim(leases: LocalLeases[Fence], now: int, transaction: Transaction) -> RunList:
    rows = fetch(transaction.db, _RUNS + "WHERE status = 'running' ORDER BY due_at, position")
    lost = [run for run in map(_run, rows) if not leases.is_live(run.fence)]
    if lost:
        transaction.hints |= QueueHint.STOPS
    return [_charge(transaction, run, now) for run in lost]


def _charge(transaction: Transaction, run: Run, now: int) -> Run:
    charged = replace(run, crashes=run.crashes + 1)
    if run.cancel is not None:
        return _ended(transaction, charged, cancelled_ending(run, run.cancel), now)
    if charged.crashes >= MAX_CRASHES:
        return _ended(transaction, charged, Ending("error", error=MAX_ATTEMPTS_ERROR), now)
    return_to_queue(transaction, run.thread_id, run.run_id, "crashes + 1", now)
    return replace(charged, status="pending", updated_at=now)


# Rows


def _encode_at(now: int, *drafts: Draft) -> Any:
    return encode(drafts, lambda: now)


def _remove(db: apsw.Connection, run_id: RunId) -> None:
    db.execute("DELETE FROM runs WHERE run = ?", (key_of(run_id),))


def _find(db: apsw.Connection, run_id: RunId, access: AccessFilter = EVERYTHING) -> Run | None:
    allowed, bindings = and_allows(RUN_METADATA, access)
    return _one(db, _RUNS + "WHERE run = ?" + allowed, [key_of(run_id), *bindings])


def _one(db: apsw.Connection, sql: str, bindings: Sequence[Any]) -> Run | None:
    for row in fetch(db, sql, bindings):
        return _run(row)
    return None


def _run(row: Sequence[Any]) -> Run:
    (
        run,
        thread,
        assistant,
        graph_id,
        status,
        created_at,
        updated_at,
        due_at,
        queued_seq,
        multitask,
        attempt,
        crashes,
        cancel,
        metadata,
        kwargs,
        error,
        ended_seq,
        idempotency_key,
        request_digest,
        temporary,
        webhook,
        started_at,
        owner,
        via,
    ) = row
    return Run(
        run_id=RunId(name_of(run)),
        thread_id=ThreadId(name_of(thread)),
        assistant_id=AssistantId(name_of(assistant)),
        graph_id=graph_id,
        status=status,
        created_at=created_at,
        updated_at=updated_at,
        due_at=due_at,
        queued_seq=Seq(queued_seq),
        multitask_strategy=multitask,
        attempt=attempt,
        crashes=crashes,
        cancel=cancel,
        metadata=from_text(metadata),
        kwargs=from_text(kwargs),
        error=from_text(error),
        ended_seq=None if ended_seq is None else Seq(ended_seq),
        idempotency_key=idempotency_key,
        request_digest=request_digest,
        temporary=bool(temporary),
        webhook=webhook,
        started_at=started_at,
        owner=owner,
        via=via,
    )
