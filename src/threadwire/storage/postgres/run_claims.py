"""Claim due runs, and renew the leases of claims.

A claim locks the heads of the threads whose runs it takes, and skips those that are locked. So workers never wait for
each other, and exactly one of those that compete for a run gets it.
"""

from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CancelAction, Lease, QueueHint, Run, Suspects
from threadwire.core.run_state import SUSPECT_CRASHES, assignment_by, graph_assignment, is_suspect
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.json_columns import from_text, to_text
from threadwire.storage.postgres.run_rows import COLUMNS, RUNS, fetch_runs
from threadwire.storage.postgres.threads import set_metadata
from threadwire.storage.postgres.transaction import Transaction

_SUSPECTS_LOCK = 0x7477737573706563
_FURTHER_CANDIDATES = 100
"""How many more runs than wanted are considered, because competitors may hold the threads of the first ones."""
# Exactly as in the partial indexes.
_UNDELAYED = "status = 'pending' AND first AND due_at <= created_at"
_DELAYED = "status = 'pending' AND first AND due_at > created_at"
_NOT_HELD = """NOT EXISTS (SELECT 1 FROM thread_holds AS h
                            WHERE h.thread = runs.thread AND h.until > clock_timestamp())"""
_SUSPECT_RUNNING = f"EXISTS (SELECT 1 FROM runs WHERE status = 'running' AND crashes >= {SUSPECT_CRASHES})"
_MAY_RUN = f"(crashes < {SUSPECT_CRASHES} OR NOT {_SUSPECT_RUNNING}) AND {_NOT_HELD}"
_MAY_CLAIM: dict[Suspects, str] = {
    "one": _MAY_RUN,
    "none": f"crashes < {SUSPECT_CRASHES} AND {_NOT_HELD}",
    "only": f"crashes >= {SUSPECT_CRASHES} AND {_NOT_HELD}",
}

_LOCK_DUE = f"""
WITH candidates AS (
  (SELECT thread, due_at, position FROM runs WHERE {_UNDELAYED} AND {_MAY_RUN}
    ORDER BY due_at, position LIMIT $1 + {_FURTHER_CANDIDATES})
  UNION ALL
  (SELECT thread, due_at, position FROM runs WHERE {_DELAYED} AND due_at <= $2 AND {_MAY_RUN}
    ORDER BY due_at, position LIMIT $1 + {_FURTHER_CANDIDATES})
), next AS (SELECT DISTINCT ON (thread) thread, due_at, position FROM candidates ORDER BY thread, due_at, position)
SELECT h.thread, h.last_seq, h.live, h.run, h.attempt FROM thread_heads AS h JOIN next ON next.thread = h.thread
 ORDER BY next.due_at, next.position LIMIT $1 FOR UPDATE OF h SKIP LOCKED
"""
_DUE = f"""
{RUNS} WHERE thread = ANY($1) AND status = 'pending' AND first AND (due_at <= created_at OR due_at <= $2) AND {_MAY_RUN}
 ORDER BY due_at, position
"""
_START = f"""
UPDATE runs SET status = 'running', attempt = attempt + 1, due_at = least(due_at, created_at), updated_at = $2,
       started_at = $2, first = false, worker = $3, leased_until = clock_timestamp() + $4 * interval '1 millisecond'
 WHERE run = ANY($1) RETURNING {COLUMNS}
"""
_CLEAR_NEXT = "UPDATE runs SET first = false WHERE thread = ANY($1) AND status = 'pending' AND first"
_MARK_NEXT = """
UPDATE runs SET first = true
 WHERE position IN ((SELECT position FROM runs WHERE thread = $1 AND status = 'pending' AND due_at <= created_at
                      ORDER BY position LIMIT 1),
                    (SELECT position FROM runs WHERE thread = $1 AND status = 'pending' AND due_at > created_at
                        AND NOT EXISTS (SELECT 1 FROM runs WHERE thread = $1 AND status = 'pending' AND attempt > 0)
                      ORDER BY due_at, position LIMIT 1))
   AND NOT EXISTS (SELECT 1 FROM runs WHERE thread = $1 AND status = 'running')
"""
_RENEW = """
WITH renewed_holds AS (
  UPDATE thread_holds SET until = clock_timestamp() + $2 * interval '1 millisecond' WHERE worker = $1
)
UPDATE runs SET leased_until = clock_timestamp() + $2 * interval '1 millisecond'
 WHERE worker = $1 AND status = 'running' AND leased_until > '-infinity' RETURNING run, attempt, cancel
"""
# No renewal revives them: the process of the worker may still be ending (8.2a).
_EXPIRE = """
WITH ended_holds AS (DELETE FROM thread_holds WHERE worker = $1)
UPDATE runs SET leased_until = '-infinity' WHERE worker = $1 AND status = 'running'
"""


async def anything_due(db: Connection, now: int) -> bool:
    """Whether a claim might find something. Workers poll often, and usually nothing is due."""
    sql = f"""SELECT EXISTS (SELECT 1 FROM runs WHERE {_UNDELAYED})
                  OR EXISTS (SELECT 1 FROM runs WHERE {_DELAYED} AND due_at <= $1)"""
    found: bool = await db.fetchval(sql, now)
    return found


def _for(suspects: Suspects, sql: str) -> str:
    return sql.replace(_MAY_RUN, _MAY_CLAIM[suspects])


async def claim_due(
    transaction: Transaction, limit: int, lease: Lease, now: int, suspects: Suspects = "one"
) -> list[Run]:
    threads = await transaction.lock_found(_for(suspects, _LOCK_DUE), limit, now)
    if not threads:
        return []
    # Again, because another transaction may have changed them before their heads were locked.
    due = await fetch_runs(transaction.db, _for(suspects, _DUE), ([key_of(thread_id) for thread_id in threads], now))
    chosen = _first_of_each_thread(due)
    if suspects == "one" and any(is_suspect(run.crashes) for run in chosen):
        chosen = await _with_one_suspect(transaction.db, chosen)
    return await _start(transaction, chosen, lease, now)


def _first_of_each_thread(due: list[Run]) -> list[Run]:
    chosen: dict[ThreadId, Run] = {}
    for run in due:
        chosen.setdefault(run.thread_id, run)
    return [*chosen.values()]


async def _with_one_suspect(db: Connection, runs: list[Run]) -> list[Run]:
    """Claim at most one suspect, and none while another one is running or is being claimed (5.7)."""
    free = await db.fetchval("SELECT pg_try_advisory_xact_lock($1)", _SUSPECTS_LOCK)
    taken = not free or await db.fetchval(f"SELECT {_SUSPECT_RUNNING}")
    chosen: list[Run] = []
    for run in runs:
        if is_suspect(run.crashes):
            if taken:
                continue
            taken = True
        chosen.append(run)
    return chosen


async def _start(transaction: Transaction, runs: list[Run], lease: Lease, now: int) -> list[Run]:
    if not runs:
        return []
    db = transaction.db
    await db.execute(_CLEAR_NEXT, [key_of(run.thread_id) for run in runs])
    keys = [key_of(run.run_id) for run in runs]
    started = {run.run_id: run for run in await fetch_runs(db, _START, (keys, now, lease.worker, lease.milliseconds))}
    await _assign_graphs(db, [run for run in started.values() if run.attempt == 1])
    for run in started.values():
        transaction.hold(run.thread_id, run.fence)
    return [started[run.run_id] for run in runs]


async def _assign_graphs(db: Connection, runs: list[Run]) -> None:
    """Assign the graphs and assistants of the runs to their threads (5.11), and note the previous ones for a
    rollback."""
    rows = await db.fetch(
        "SELECT thread, metadata FROM threads WHERE thread = ANY($1)", [key_of(run.thread_id) for run in runs]
    )
    metadata_of = {name_of(thread): from_text(text) for thread, text in rows}
    for run in runs:
        metadata = metadata_of[run.thread_id]
        previous, assigned = graph_assignment(metadata), assignment_by(run)
        if previous != assigned:
            await set_metadata(db, run.thread_id, metadata | assigned)
            sql = "UPDATE runs SET thread_was = $2 WHERE run = $1"
            await db.execute(sql, key_of(run.run_id), to_text(previous))


async def mark_next(db: Connection, thread_id: ThreadId) -> None:
    """Mark the runs of the thread that may start next, if no run of it is running (5.8)."""
    thread = key_of(thread_id)
    await db.execute(_CLEAR_NEXT, [thread])
    await db.execute(_MARK_NEXT, thread)


async def next_due(db: Connection, suspects: Suspects = "one") -> int | None:
    # A suspect that waits for a running suspect is claimed when that one ends, not at a given time.
    first = f"SELECT min(due_at) FROM (SELECT due_at FROM runs WHERE {{}} AND {_MAY_RUN} ORDER BY due_at LIMIT 1) AS r"
    sql = f"SELECT least(({first.format(_UNDELAYED)}), ({first.format(_DELAYED)}))"
    found: int | None = await db.fetchval(_for(suspects, sql))
    return found


async def is_held(db: Connection, thread_id: ThreadId) -> bool:
    sql = "SELECT EXISTS (SELECT 1 FROM thread_holds WHERE thread = $1 AND until > clock_timestamp())"
    found: bool = await db.fetchval(sql, key_of(thread_id))
    return found


async def renew_leases(db: Connection, lease: Lease) -> dict[Fence, CancelAction | None]:
    rows = await db.fetch(_RENEW, lease.worker, lease.milliseconds)
    return {Fence(RunId(name_of(run)), attempt): cancel for run, attempt, cancel in rows}


async def expire_leases(transaction: Transaction, worker: str) -> None:
    await transaction.db.execute(_EXPIRE, worker)
    transaction.hints |= QueueHint.WORK
