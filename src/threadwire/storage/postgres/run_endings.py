"""End runs, cancel them, and recover those whose workers have died. Every function is called in a transaction that has
locked the head of the run's thread."""

from dataclasses import replace
from typing import Any

from threadwire.core.entries import Draft, Fence, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import CancelAction, Cancelled, Ending, QueueHint, Run
from threadwire.core.run_state import (
    MAX_ATTEMPTS_ERROR,
    MAX_CRASHES,
    assignment_by,
    can_transition,
    cancelled_ending,
    metadata_after_rollback,
    user_interrupt_error,
)
from threadwire.errors import RollbackDue
from threadwire.storage.postgres.checkpoint_maintenance import delete_checkpoints_of
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.deliveries import enqueue_delivery
from threadwire.storage.postgres.id_keys import key_of
from threadwire.storage.postgres.json_columns import from_text, to_text, to_text_or_null
from threadwire.storage.postgres.run_claims import mark_next
from threadwire.storage.postgres.run_rows import RUNS, fetch_runs, find_run, remove_run
from threadwire.storage.postgres.threads import StateColumns, discard_thread, set_metadata
from threadwire.storage.postgres.transaction import Transaction
from threadwire.storage.segments import encode

_LOCK_LOST = """
SELECT h.thread, h.last_seq, h.live, h.run, h.attempt FROM runs AS r JOIN thread_heads AS h ON h.thread = r.thread
 WHERE r.status = 'running' AND r.leased_until <= clock_timestamp() FOR UPDATE OF h SKIP LOCKED
"""
_LOST = f"""
{RUNS} WHERE thread = ANY($1) AND status = 'running' AND leased_until <= clock_timestamp() ORDER BY due_at, position
"""
_CLOSE = """
UPDATE runs SET status = $2, error = $3, ended_seq = $4, updated_at = $5, first = false, worker = NULL,
       leased_until = NULL
 WHERE run = $1 AND ($6 OR cancel IS DISTINCT FROM 'rollback') RETURNING temporary, webhook
"""
_COUNT_ENDED = "UPDATE threads SET active = active - 1, updated_at = $2 WHERE thread = $1 RETURNING active"
_SET_STATUS = """
UPDATE threads SET status = $3, error = $4, active = active - 1, updated_at = $2 WHERE thread = $1 RETURNING active
"""
_HAND_OVER = """
UPDATE runs SET thread_was = $1
 WHERE thread = $2 AND status IN ('pending', 'running') AND attempt > 0 AND thread_was = $3 RETURNING 1
"""
_RETURN = """
UPDATE runs SET status = 'pending', crashes = crashes + $2, updated_at = $3, worker = NULL, leased_until = NULL
 WHERE run = $1
"""


async def cancel_run(transaction: Transaction, run: Run, action: CancelAction, now: int) -> Cancelled:
    if run.status == "pending":
        return Cancelled(await _ended(transaction, run, cancelled_ending(run, action), now), ended=True)
    if run.cancel is not None:
        return Cancelled(run, ended=False)
    sql = "UPDATE runs SET cancel = $2, updated_at = $3 WHERE run = $1"
    await transaction.db.execute(sql, key_of(run.run_id), action, now)
    transaction.hints |= QueueHint.STOPS
    return Cancelled(replace(run, cancel=action, updated_at=now), ended=False)


async def _ended(transaction: Transaction, run: Run, ending: Ending, now: int) -> Run:
    """End a run that no worker executes, and return it as it ended. Stores its `crashes`, which may have changed."""
    assert can_transition(run.status, ending.status)
    if not ending.rollback:
        sql = "UPDATE runs SET crashes = $2 WHERE run = $1"
        await transaction.db.execute(sql, key_of(run.run_id), run.crashes)
    seq = await end_run(transaction, run.thread_id, run.fence, ending, now)
    return replace(run, status=ending.status, error=ending.error, ended_seq=seq, updated_at=now)


async def end_run(
    transaction: Transaction, thread_id: ThreadId, fence: Fence, ending: Ending, now: int, *, force: bool = True
) -> Seq:
    """End a run: write its last entry, its row and the state of its thread (5.3). Every run ends here. Raises
    `RollbackDue` if the run must be rolled back but ends otherwise, unless `force`."""
    if ending.rollback:
        seq, left, temporary, webhook_run = await _roll_back(transaction, thread_id, fence, ending, now)
    else:
        seq, left, temporary, webhook_run = await _close(transaction, thread_id, fence, ending, now, force=force)
    if transaction.head(thread_id).holder == fence:
        transaction.release(thread_id)
    if webhook_run is not None:
        await enqueue_delivery(transaction.db, webhook_run, now, values_of=None if ending.rollback else thread_id)
    if left:
        await mark_next(transaction.db, thread_id)
        transaction.hints |= QueueHint.WORK
    elif temporary:
        await discard_thread(transaction, thread_id, now)
    return seq


_EndedRun = tuple[Seq, int, bool, Run | None]
"""The last seq of the run, the number of active runs left on its thread, whether the run was temporary, and the ended
run if its webhook must be delivered."""


async def _close(
    transaction: Transaction, thread_id: ThreadId, fence: Fence, ending: Ending, now: int, *, force: bool
) -> _EndedRun:
    db = transaction.db
    seq = Seq(transaction.head(thread_id).last + 1)
    error = to_text_or_null(ending.error)
    closed = await db.fetchrow(_CLOSE, key_of(fence.run_id), ending.status, error, seq, now, force)
    if closed is None:
        raise RollbackDue
    transaction.append(thread_id, encode_at(now, ending.entry(now)), fence.run_id, fence.attempt)
    temporary, webhook = closed
    webhook_run = None if webhook is None else await find_run(db, fence.run_id)
    return seq, await _store_outcome(db, thread_id, ending, now), temporary, webhook_run


async def _store_outcome(db: Connection, thread_id: ThreadId, ending: Ending, now: int) -> int:
    """Store the outcome of a run on its thread. Returns the number of active runs left."""
    if ending.summary is not None:
        return await StateColumns(ending.summary).write(db, thread_id, now, ended=1)
    if not ending.started:
        return await _count_ended(db, thread_id, now)
    status = {"error": "error", "timeout": "error", "interrupted": "interrupted"}.get(ending.status, "idle")
    left: int = await db.fetchval(_SET_STATUS, key_of(thread_id), now, status, to_text_or_null(ending.error))
    return left


async def _count_ended(db: Connection, thread_id: ThreadId, now: int) -> int:
    """Count a run as ended without changing the thread's state. Returns the number of active runs left."""
    left: int = await db.fetchval(_COUNT_ENDED, key_of(thread_id), now)
    return left


async def _roll_back(
    transaction: Transaction, thread_id: ThreadId, fence: Fence, ending: Ending, now: int
) -> _EndedRun:
    """Remove everything of the run except its entries (5.9)."""
    db = transaction.db
    reset = Draft(Kind.STATE_RESET, {"cause": "rollback"})
    ended = Draft(Kind.RUN_ENDED, {"status": "rolled_back"})
    seq = transaction.append(thread_id, encode_at(now, reset, ended), fence.run_id, fence.attempt)
    if fence.attempt > 0:
        await delete_checkpoints_of(db, thread_id, fence.run_id)
    run = await find_run(db, fence.run_id)
    assert run is not None, "a run that ends has a row"
    await _restore_metadata(db, run)
    await remove_run(db, fence.run_id)
    left = await _count_ended(db, thread_id, now)
    error = user_interrupt_error("rollback")
    rolled_back = replace(run, status=ending.status, error=error, ended_seq=seq, updated_at=now)
    return seq, left, run.temporary, None if run.webhook is None else rolled_back


async def _restore_metadata(db: Connection, run: Run) -> None:
    """Restore the thread's previous `graph_id` and `assistant_id`. If another run has started since, hand them over to
    it instead, to be restored when that one is rolled back."""
    previous = await db.fetchval("SELECT thread_was FROM runs WHERE run = $1", key_of(run.run_id))
    if previous is None:
        return
    thread = key_of(run.thread_id)
    if await db.fetchval(_HAND_OVER, previous, thread, to_text(assignment_by(run))) is None:
        metadata = from_text(await db.fetchval("SELECT metadata FROM threads WHERE thread = $1", thread))
        await set_metadata(db, run.thread_id, metadata_after_rollback(metadata, run, from_text(previous)))


async def return_to_queue(
    transaction: Transaction, thread_id: ThreadId, run_id: RunId, now: int, *, crashes: int = 0
) -> None:
    """Return a run to the queue. It keeps its turn, because neither its due time nor its position has changed."""
    transaction.release(thread_id)
    await transaction.db.execute(_RETURN, key_of(run_id), crashes, now)
    await mark_next(transaction.db, thread_id)
    transaction.hints |= QueueHint.WORK


async def anything_lost(db: Connection) -> bool:
    """Whether `reclaim_lost` would find something. Every worker asks often, and usually nothing is lost."""
    sql = "SELECT EXISTS (SELECT 1 FROM runs WHERE status = 'running' AND leased_until <= clock_timestamp())"
    found: bool = await db.fetchval(sql)
    return found


async def reclaim_lost(transaction: Transaction, now: int) -> list[Run]:
    """Recover the runs whose leases have expired. Threads that are locked are left to the next call."""
    threads = await transaction.lock_found(_LOCK_LOST)
    lost = await fetch_runs(transaction.db, _LOST, ([key_of(thread_id) for thread_id in threads],))
    if lost:
        transaction.hints |= QueueHint.STOPS
    return [await _charge(transaction, run, now) for run in lost]


async def _charge(transaction: Transaction, run: Run, now: int) -> Run:
    charged = replace(run, crashes=run.crashes + 1)
    if run.cancel is not None:
        return await _ended(transaction, charged, cancelled_ending(run, run.cancel), now)
    if charged.crashes >= MAX_CRASHES:
        return await _ended(transaction, charged, Ending("error", error=MAX_ATTEMPTS_ERROR), now)
    await return_to_queue(transaction, run.thread_id, run.run_id, now, crashes=1)
    return replace(charged, status="pending", updated_at=now)


def encode_at(now: int, *drafts: Draft) -> Any:
    return encode(drafts, lambda: now)
