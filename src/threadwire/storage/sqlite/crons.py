"""Crons: their rows and their slots, the times at which they fire."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import apsw

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.ids import AssistantId, CronId, ThreadId
from threadwire.core.records import Cron, CronQuery, Fired, Lease, NewRun
from threadwire.errors import NotFound, ThreadwireError
from threadwire.storage.local_leases import LocalHolds
from threadwire.storage.sqlite.access_terms import allows, and_allows, labelled
from threadwire.storage.sqlite.id_keys import key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, to_text
from threadwire.storage.sqlite.runs import accept_run, committed
from threadwire.storage.sqlite.threads import require_thread
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.writer import Writer

_COLUMNS = """cron, assistant, thread, keep_threads, schedule, timezone, end_time, next_run_at, last_run_at, enabled,
  multitask, metadata, payload, kwargs, created_at, updated_at, owner"""
# Not `INSERT OR REPLACE`: it would not fire the trigger that removes the labels of the replaced row.
_WRITE = f"""INSERT INTO crons ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
ON CONFLICT DO UPDATE SET assistant = excluded.assistant, thread = excluded.thread,
  keep_threads = excluded.keep_threads, schedule = excluded.schedule, timezone = excluded.timezone,
  end_time = excluded.end_time, next_run_at = excluded.next_run_at, last_run_at = excluded.last_run_at,
  enabled = excluded.enabled, multitask = excluded.multitask, metadata = excluded.metadata, payload = excluded.payload,
  kwargs = excluded.kwargs, created_at = excluded.created_at, updated_at = excluded.updated_at,
  owner = excluded.owner"""
_CRONS = f"SELECT {_COLUMNS} FROM crons "
_SORT = {
    "cron_id": "cron",
    "assistant_id": "assistant",
    "thread_id": "thread",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "next_run_at": "next_run_at",
    "end_time": "end_time",
}


class SqliteCrons:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def create(self, cron: Cron, *, thread_access: AccessFilter = EVERYTHING) -> None:
        def create(transaction: Transaction) -> None:
            if cron.thread_id is not None:
                require_thread(transaction, cron.thread_id, thread_access)
            _put(transaction.db, cron)

        await self._writer.do(create)

    async def get(self, cron_id: CronId, *, access: AccessFilter = EVERYTHING) -> Cron | None:
        with self._readers.lend() as db:
            return _find(db, cron_id, access)

    async def update(
        self, cron_id: CronId, change: Callable[[Cron], Cron], *, access: AccessFilter = EVERYTHING
    ) -> Cron:
        def update(transaction: Transaction) -> Cron:
            changed = change(_load(transaction.db, cron_id, access))
            _put(transaction.db, changed)
            return _load(transaction.db, cron_id)

        return await self._writer.do(update)

    async def delete(self, cron_id: CronId, *, access: AccessFilter = EVERYTHING) -> None:
        def delete(transaction: Transaction) -> None:
            _load(transaction.db, cron_id, access)
            transaction.db.execute("DELETE FROM crons WHERE cron = ?", (key_of(cron_id),))

        await self._writer.do(delete, essential=True)

    async def search(
        self, query: CronQuery, *, access: AccessFilter = EVERYTHING, thread_access: AccessFilter = EVERYTHING
    ) -> list[Cron]:
        return await self._readers.run_in_thread(partial(_search, query, access, thread_access))

    async def count(
        self, query: CronQuery, *, access: AccessFilter = EVERYTHING, thread_access: AccessFilter = EVERYTHING
    ) -> int:
        return await self._readers.run_in_thread(partial(_count, query, access, thread_access))

    async def due(self, now: int, *, limit: int) -> list[Cron]:
        sql = _CRONS + "WHERE enabled = 1 AND next_run_at <= ? ORDER BY next_run_at, cron LIMIT ?"
        with self._readers.lend() as db:
            return [_cron(row) for row in fetch(db, sql, (now, limit))]

    async def next_due(self) -> int | None:
        sql = "SELECT next_run_at FROM crons WHERE enabled = 1 AND next_run_at IS NOT NULL ORDER BY next_run_at LIMIT 1"
        with self._readers.lend() as db:
            due: int | None = db.execute(sql).get
            return due

    async def fire(
        self,
        cron: Cron,
        new: NewRun | None,
        next_run_at: int | None,
        *,
        claim: Lease | None = None,
    ) -> Fired | None:
        operation = partial(_fire, cron, new, next_run_at, claim, self._writer.holds)
        job = await self._writer.do_until_written(operation, defer_sync=False)
        fired = job.result
        if fired is not None and fired.accepted is not None:
            return replace(fired, accepted=await committed(fired.accepted, job))
        await job.wait_or_raise()
        return fired


def _fire(
    cron: Cron,
    new: NewRun | None,
    next_run_at: int | None,
    claim: Lease | None,
    holds: LocalHolds,
    transaction: Transaction,
) -> Fired | None:
    if _find(transaction.db, cron.cron_id) != cron:
        return None
    fired = Fired() if new is None else _accept(new, claim, holds, transaction)
    _put(transaction.db, replace(cron, last_run_at=cron.next_run_at, next_run_at=next_run_at))
    return fired


def _accept(new: NewRun, claim: Lease | None, holds: LocalHolds, transaction: Transaction) -> Fired:
    try:
        return Fired(accepted=accept_run(new, claim, holds, transaction))
    except ThreadwireError as rejection:  # raised before anything is changed
        return Fired(rejected=rejection.message)


def _load(db: apsw.Connection, cron_id: CronId, access: AccessFilter = EVERYTHING) -> Cron:
    if (cron := _find(db, cron_id, access)) is None:
        raise NotFound(f"Cron '{cron_id}' not found")
    return cron


def _find(db: apsw.Connection, cron_id: CronId, access: AccessFilter = EVERYTHING) -> Cron | None:
    allowed, bindings = and_allows("metadata", access)
    for row in fetch(db, f"{_CRONS} WHERE cron = ?{allowed}", [key_of(cron_id), *bindings]):
        return _cron(row)
    return None


def _search(query: CronQuery, access: AccessFilter, thread_access: AccessFilter, db: apsw.Connection) -> list[Cron]:
    where, bindings = _where(query, access, thread_access)
    order = "DESC" if query.descending else "ASC"
    sql = f"{_CRONS} {where} ORDER BY {_SORT[query.sort_by]} {order}, cron {order} LIMIT ? OFFSET ?"
    return [_cron(row) for row in fetch(db, sql, [*bindings, query.limit, query.offset])]


def _count(query: CronQuery, access: AccessFilter, thread_access: AccessFilter, db: apsw.Connection) -> int:
    where, bindings = _where(query, access, thread_access)
    return int(db.execute(f"SELECT count(*) FROM crons {where}", bindings).get)


def _where(query: CronQuery, access: AccessFilter, thread_access: AccessFilter) -> tuple[str, list[Any]]:
    terms: list[str] = []
    bindings: list[Any] = []
    for term, values in (labelled("cron_labels", "cron", access), allows("metadata", access)):
        terms += [term] if term else []
        bindings += values
    if thread_access:
        thread, values = allows("(SELECT metadata FROM threads WHERE thread = crons.thread)", thread_access)
        terms.append(f"(thread IS NULL OR {thread})")
        bindings += values
    for column, wanted in (("assistant", query.assistant_id), ("thread", query.thread_id)):
        if wanted is not None:
            terms.append(f"{column} = ?")
            bindings.append(key_of(wanted))
    if query.enabled is not None:
        terms.append("enabled = ?")
        bindings.append(query.enabled)
    if query.metadata:
        terms.append("json_contains(metadata, ?)")
        bindings.append(apsw.pyobject(query.metadata))
    return ("WHERE " + " AND ".join(terms) if terms else ""), bindings


def _put(db: apsw.Connection, cron: Cron) -> None:
    db.execute(
        _WRITE,
        (
            key_of(cron.cron_id),
            key_of(cron.assistant_id),
            None if cron.thread_id is None else key_of(cron.thread_id),
            cron.keep_threads,
            cron.schedule,
            cron.timezone,
            cron.end_time,
            cron.next_run_at,
            cron.last_run_at,
            cron.enabled,
            cron.multitask_strategy,
            to_text(cron.metadata),
            to_text(cron.payload),
            to_text(cron.kwargs),
            cron.created_at,
            cron.updated_at,
            cron.owner,
        ),
    )


def _cron(row: tuple[Any, ...]) -> Cron:
    (
        cron,
        assistant,
        thread,
        keep_threads,
        schedule,
        timezone,
        end_time,
        next_run_at,
        last_run_at,
        enabled,
        multitask,
        metadata,
        payload,
        kwargs,
        created_at,
        updated_at,
        owner,
    ) = row
    return Cron(
        cron_id=CronId(name_of(cron)),
        assistant_id=AssistantId(name_of(assistant)),
        schedule=schedule,
        created_at=created_at,
        updated_at=updated_at,
        thread_id=None if thread is None else ThreadId(name_of(thread)),
        keep_threads=bool(keep_threads),
        timezone=timezone,
        end_time=end_time,
        next_run_at=next_run_at,
        last_run_at=last_run_at,
        enabled=bool(enabled),
        multitask_strategy=multitask,
        metadata=from_text(metadata),
        payload=from_text(payload),
        kwargs=from_text(kwargs),
        owner=owner,
    )
