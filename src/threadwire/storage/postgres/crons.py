"""Crons: their rows and their slots, the times at which they fire."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from asyncpg import Connection, Record

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.ids import AssistantId, CronId, ThreadId
from threadwire.core.records import Cron, CronQuery, Fired, Lease, NewRun
from threadwire.errors import NotFound, StorageError, ThreadwireError
from threadwire.storage.postgres.access_terms import Bindings, allows, and_allows, has, where
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.json_columns import from_text, searchable, to_text
from threadwire.storage.postgres.runs import accept_run
from threadwire.storage.postgres.text_columns import escaped, escaped_or_null, unescaped, unescaped_or_none
from threadwire.storage.postgres.threads import require_thread
from threadwire.storage.postgres.transaction import Transaction

_COLUMNS = """cron, assistant, thread, keep_threads, schedule, timezone, end_time, next_run_at, last_run_at, enabled,
  multitask, metadata, payload, kwargs, created_at, updated_at, owner"""
_WRITE = f"""INSERT INTO crons ({_COLUMNS}, search)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18::jsonb)
ON CONFLICT (cron) DO UPDATE SET assistant = excluded.assistant, thread = excluded.thread,
  keep_threads = excluded.keep_threads, schedule = excluded.schedule, timezone = excluded.timezone,
  end_time = excluded.end_time, next_run_at = excluded.next_run_at, last_run_at = excluded.last_run_at,
  enabled = excluded.enabled, multitask = excluded.multitask, metadata = excluded.metadata, payload = excluded.payload,
  kwargs = excluded.kwargs, created_at = excluded.created_at, updated_at = excluded.updated_at,
  owner = excluded.owner, search = excluded.search"""
_CRONS = f"SELECT {_COLUMNS} FROM crons"
_THREAD_SEARCH = "(SELECT search FROM threads WHERE threads.thread = crons.thread)"
_SORT = {
    "cron_id": "cron",
    "assistant_id": "assistant",
    "thread_id": "thread",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "next_run_at": "next_run_at",
    "end_time": "end_time",
}


class PostgresCrons:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, cron: Cron, *, thread_access: AccessFilter = EVERYTHING) -> None:
        async def create(transaction: Transaction) -> None:
            if cron.thread_id is not None:
                await require_thread(transaction, cron.thread_id, thread_access)
            await _put(transaction.db, cron)

        await self._database.write(create)

    async def get(self, cron_id: CronId, *, access: AccessFilter = EVERYTHING) -> Cron | None:
        return await self._database.read(lambda db: _find(db, cron_id, access))

    async def update(
        self, cron_id: CronId, change: Callable[[Cron], Cron], *, access: AccessFilter = EVERYTHING
    ) -> Cron:
        async def update(transaction: Transaction) -> Cron:
            await _put(transaction.db, change(await _lock(transaction.db, cron_id, access)))
            return await _lock(transaction.db, cron_id)

        return await self._database.write(update)

    async def delete(self, cron_id: CronId, *, access: AccessFilter = EVERYTHING) -> None:
        async def delete(transaction: Transaction) -> None:
            await _lock(transaction.db, cron_id, access)
            await transaction.db.execute("DELETE FROM crons WHERE cron = $1", key_of(cron_id))

        await self._database.write(delete)

    async def search(
        self, query: CronQuery, *, access: AccessFilter = EVERYTHING, thread_access: AccessFilter = EVERYTHING
    ) -> list[Cron]:
        bindings = Bindings()
        terms = _where(query, access, thread_access, bindings)
        order = "DESC NULLS LAST" if query.descending else "ASC NULLS FIRST"
        page = bindings.page(query.limit, query.offset)
        sql = f"{_CRONS} {terms} ORDER BY {_SORT[query.sort_by]} {order}, cron {order} {page}"
        return [_cron(row) for row in await self._database.read(lambda db: db.fetch(sql, *bindings))]

    async def count(
        self, query: CronQuery, *, access: AccessFilter = EVERYTHING, thread_access: AccessFilter = EVERYTHING
    ) -> int:
        bindings = Bindings()
        sql = f"SELECT count(*) FROM crons {_where(query, access, thread_access, bindings)}"
        return int(await self._database.read(lambda db: db.fetchval(sql, *bindings)))

    async def due(self, now: int, *, limit: int) -> list[Cron]:
        sql = f"{_CRONS} WHERE enabled AND next_run_at <= $1 ORDER BY next_run_at, cron LIMIT $2"
        return [_cron(row) for row in await self._database.read(lambda db: db.fetch(sql, now, limit))]

    async def next_due(self) -> int | None:
        sql = "SELECT min(next_run_at) FROM crons WHERE enabled AND next_run_at IS NOT NULL"
        due: int | None = await self._database.read(lambda db: db.fetchval(sql))
        return due

    async def fire(
        self,
        cron: Cron,
        new: NewRun | None,
        next_run_at: int | None,
        *,
        claim: Lease | None = None,
    ) -> Fired | None:
        async def fire(transaction: Transaction) -> Fired | None:
            if new is not None:
                await transaction.lock(new.thread_id)  # before the cron, as when the thread is deleted
            if await _find(transaction.db, cron.cron_id, lock=True) != cron:
                return None
            fired = Fired() if new is None else await _accept(transaction, new, claim)
            await _put(transaction.db, replace(cron, last_run_at=cron.next_run_at, next_run_at=next_run_at))
            return fired

        return await self._database.write(fire)


async def _accept(transaction: Transaction, new: NewRun, claim: Lease | None) -> Fired:
    try:
        return Fired(accepted=await accept_run(transaction, new, claim))
    except StorageError:
        raise
    except ThreadwireError as rejection:  # raised before anything is changed
        return Fired(rejected=rejection.message)


async def _find(
    db: Connection, cron_id: CronId, access: AccessFilter = EVERYTHING, *, lock: bool = False
) -> Cron | None:
    bindings = Bindings([key_of(cron_id)])
    sql = f"{_CRONS} WHERE cron = $1{and_allows('search', access, bindings)}{' FOR UPDATE' if lock else ''}"
    row = await db.fetchrow(sql, *bindings)
    return None if row is None else _cron(row)


async def _lock(db: Connection, cron_id: CronId, access: AccessFilter = EVERYTHING) -> Cron:
    if (cron := await _find(db, cron_id, access, lock=True)) is None:
        raise NotFound(f"Cron '{cron_id}' not found")
    return cron


def _where(query: CronQuery, access: AccessFilter, thread_access: AccessFilter, bindings: Bindings) -> str:
    terms = [allows("search", access, bindings)]
    if thread_access:
        terms.append(f"(thread IS NULL OR ({allows(_THREAD_SEARCH, thread_access, bindings)}))")
    for column, wanted in (("assistant", query.assistant_id), ("thread", query.thread_id)):
        if wanted is not None:
            terms.append(f"{column} = {bindings.bind(key_of(wanted))}")
    if query.enabled is not None:
        terms.append(f"enabled = {bindings.bind(query.enabled)}")
    if query.metadata:
        terms.append(has("search", query.metadata, bindings))
    return where(terms)


async def _put(db: Connection, cron: Cron) -> None:
    metadata = to_text(cron.metadata)
    await db.execute(
        _WRITE,
        key_of(cron.cron_id),
        key_of(cron.assistant_id),
        None if cron.thread_id is None else key_of(cron.thread_id),
        cron.keep_threads,
        escaped(cron.schedule),
        escaped_or_null(cron.timezone),
        cron.end_time,
        cron.next_run_at,
        cron.last_run_at,
        cron.enabled,
        cron.multitask_strategy,
        metadata,
        to_text(cron.payload),
        to_text(cron.kwargs),
        cron.created_at,
        cron.updated_at,
        escaped_or_null(cron.owner),
        searchable(metadata),
    )


def _cron(row: Record) -> Cron:
    found: dict[str, Any] = dict(row)
    return Cron(
        cron_id=CronId(name_of(found["cron"])),
        assistant_id=AssistantId(name_of(found["assistant"])),
        schedule=unescaped(found["schedule"]),
        created_at=found["created_at"],
        updated_at=found["updated_at"],
        thread_id=None if found["thread"] is None else ThreadId(name_of(found["thread"])),
        keep_threads=found["keep_threads"],
        timezone=unescaped_or_none(found["timezone"]),
        end_time=found["end_time"],
        next_run_at=found["next_run_at"],
        last_run_at=found["last_run_at"],
        enabled=found["enabled"],
        multitask_strategy=found["multitask"],
        metadata=from_text(found["metadata"]),
        payload=from_text(found["payload"]),
        kwargs=from_text(found["kwargs"]),
        owner=unescaped_or_none(found["owner"]),
    )
