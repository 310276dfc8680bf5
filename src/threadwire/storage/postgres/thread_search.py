"""Search threads: the statement for a query, and the exact comparison of values.

Values from clients are bound, and their keys are compared but never become part of the SQL. PostgreSQL chooses between
the indexes of the metadata, the status and the sort order by its statistics.
"""

from collections.abc import AsyncIterator

from asyncpg import Record

from threadwire.core.access_filter import AccessFilter
from threadwire.core.records import ThreadQuery
from threadwire.storage.abc import contains
from threadwire.storage.postgres.access_terms import Bindings, allows, has, where
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.id_keys import key_of
from threadwire.storage.postgres.json_columns import from_text, needs_rewriting, searchable_value, to_text

STATUS = "CASE WHEN t.active > 0 THEN 'busy' ELSE t.status END"
"""Written as in the index `threads_status`."""

_SORT = {
    "thread_id": ("t.thread",),
    "status": (STATUS, "t.updated_at", "t.thread"),
    "created_at": ("t.created_at", "t.thread"),
    "updated_at": ("t.updated_at", "t.thread"),
    "state_updated_at": ("t.state_updated_at", "t.thread"),
}
_WITH_STATE = "threads AS t LEFT JOIN thread_state AS s ON s.thread = t.thread"
_CHUNK = 50


async def page(db: Connection, columns: str, query: ThreadQuery, access: AccessFilter) -> list[Record]:
    """Return the rows of one page, in order. `columns` are those of `t`, a thread, and `s`, its state."""
    bindings = Bindings()
    order = "DESC NULLS LAST" if query.descending else "ASC NULLS FIRST"
    order_by = ", ".join(f"{column} {order}" for column in _SORT[query.sort_by])
    sql = f"SELECT {columns} FROM {_WITH_STATE} {_where(query, access, bindings)} ORDER BY {order_by}"
    if not query.values:
        rows: list[Record] = await db.fetch(f"{sql} {bindings.page(query.limit, query.offset)}", *bindings)
        return rows
    found: list[Record] = []
    end = max(0, query.offset) + max(0, query.limit)
    async with db.transaction(readonly=True):
        async for row in _with_values(db, f"SELECT s.vals AS searched, {sql.removeprefix('SELECT')}", bindings, query):
            if len(found) == end:
                break
            found.append(row)
    return found[max(0, query.offset) :]


async def count(db: Connection, query: ThreadQuery, access: AccessFilter) -> int:
    bindings = Bindings()
    terms = _where(query, access, bindings)
    if not query.values:
        return int(await db.fetchval(f"SELECT count(*) FROM threads AS t {terms}", *bindings))
    async with db.transaction(readonly=True):
        sql = f"SELECT s.vals AS searched FROM {_WITH_STATE} {terms}"
        return len([None async for _ in _with_values(db, sql, bindings, query)])


def _where(query: ThreadQuery, access: AccessFilter, bindings: Bindings) -> str:
    terms = [allows("t.search", access, bindings)]
    if query.ids:
        terms.append(f"t.thread = ANY({bindings.bind([key_of(thread_id) for thread_id in query.ids])}::bytea[])")
    if query.metadata:
        terms.append(has("t.search", query.metadata, bindings))
    if query.status is not None:
        terms.append(f"{STATUS} = {bindings.bind(query.status)}")
    if query.values:
        terms.append(_may_have_values(query, bindings))
    return where(terms)


def _may_have_values(query: ThreadQuery, bindings: Bindings) -> str:
    """A term that excludes most threads without these values. The values of a thread are large and rarely searched for,
    so they have no `jsonb` copy, and a text that `jsonb` does not accept is compared later."""
    if needs_rewriting(to_text(query.values)):
        return "s.vals IS NOT NULL"
    part = bindings.bind(searchable_value(query.values))
    return f"CASE WHEN strpos(s.vals, '\\u000') > 0 THEN true ELSE s.vals::jsonb @> {part}::jsonb END"


async def _with_values(db: Connection, sql: str, bindings: Bindings, query: ThreadQuery) -> AsyncIterator[Record]:
    async for row in db.cursor(sql, *bindings, prefetch=_CHUNK):
        if contains(from_text(row["searched"]), query.values):
            yield row
