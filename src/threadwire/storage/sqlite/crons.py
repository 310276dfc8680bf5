"""Crons: their rows and their slots, the times at which they fire."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import apsw

from threadwire.core.ids import AssistantId, CronId, ThreadId
from threadwire.core.records import Cron, CronQuery, Fired, NewRun, Run
from threadwire.errors import NotFound, ThreadwireError
from threadwire.storage.sqlite.keys import key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, to_text
from threadwire.storage.sqlite.runs import accept_run
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.writer import Writer

_COLUMNS = """cron, assistant, thread, keep_threads, schedule, timezone, end_time, next_run_at, last_run_at, enabled,
  multitask, metadata, payload, kwargs, created_at, updated_at, owner"""
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

    async def create(self, cron: Cron) -> None:
        def create(transaction: Transaction) -> None:
            if cron.thread_id is not None:
                transaction.require(cron.thread_id, None)
            _put(transaction.db, cron)

        await self._writer.do(create)

    async def get(self, cron_id: CronId) -> Cron | None:
        with self._readers.lend() as db:
            return _find(db, cron_id)

    async def update(self, cron_id: CronId, change: Callable[[Cron], Cron]) -> Cron:
        def update(transaction: Transaction) -> Cron:
            changed = change(_load(transaction.db, cron_id))
            _put(transaction.db, changed)
            return _load(transaction.db, cron_id)

        return await self._writer.do(update)

    async def delete(self, cron_id: CronId) -> None:
        def delete(transaction: Transaction) -> None:
            _load(transaction.db, cron_id)
            transaction.db.execute("DELETE FROM crons WHERE cron = ?", (key_of(cron_id),))

        await self._writer.do(delete)

    async def search(self, query: CronQuery) -> list[Cron]:
        return await self._readers.run_in_thread(partial(_search, query))

    async def count(self, query: CronQuery) -> int:
        return await self._readers.run_in_thread(partial(_count, query))

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
        start: Callable[[Run], None] | None = None,
    ) -> Fired | None:
        def start_run(fired: Fired | None) -> None:
            if start is not None and fired is not None and fired.accepted is not None and fired.accepted.started:
                start(fired.accepted.run)

        return await self._writer.do(partial(_fire, cron, new, next_run_at, start is not None), on_written=start_run)


def _fire(
    cron: Cron, new: NewRun | None, next_run_at: int | None, start: bool, transaction: Transaction
) -> Fired | None:
    if _find(transaction.db, cron.cron_id) != cron:
        return None
    fired = Fired() if new is None else _accept(new, start, transaction)
    _put(transaction.db, replace(cron, last_run_at=cron.next_run_at, next_run_at=next_run_at))
    return fired


def _accept(new: NewRun, start: bool, transaction: Transaction) -> Fired:
    try:
        return Fired(accepted=accept_run(new, start, transaction))
    except ThreadwireError as rejection:  # raised before anything is changed
        return Fired(rejected=rejection.message)


def _load(db: apsw.Connection, cron_id: CronId) -> Cron:
    if (cron := _find(db, cron_id)) is None:
        raise NotFound(f"Cron '{cron_id}' not found")
    return cron


def _find(db: apsw.Connection, cron_id: CronId) -> Cron | None:
    for row in fetch(db, _CRONS + "WHERE cron = ?", (key_of(cron_id),)):
        return _cron(row)
    return None


def _search(query: CronQuery, db: apsw.Connection) -> list[Cron]:
    where, bindings = _where(query)
    order = "DESC" if query.descending else "ASC"
    sql = f"{_CRONS} {where} ORDER BY {_SORT[query.sort_by]} {order}, cron {order} LIMIT ? OFFSET ?"
    return [_cron(row) for row in fetch(db, sql, [*bindings, query.limit, query.offset])]


def _count(query: CronQuery, db: apsw.Connection) -> int:
    where, bindings = _where(query)
    return int(db.execute(f"SELECT count(*) FROM crons {where}", bindings).get)


def _where(query: CronQuery) -> tuple[str, list[Any]]:
    terms: list[str] = []
    bindings: list[Any] = []
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
        f"INSERT OR REPLACE INTO crons ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
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
