"""Assistants and all their versions."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import apsw

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.ids import AssistantId
from threadwire.core.records import Assistant, AssistantQuery, AssistantVersion
from threadwire.errors import Conflict, NotFound
from threadwire.storage.sqlite.access_terms import allows, and_allows, labelled
from threadwire.storage.sqlite.id_keys import key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import bindable, fetch, from_text, to_text
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.writer import Writer

_SORT = {
    "assistant_id": "assistant",
    "graph_id": "graph_id",
    "name": "name",
    "created_at": "created_at",
    "updated_at": "updated_at",
}


class SqliteAssistants:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def create(
        self, assistant: Assistant, *, if_exists: str = "raise", access: AccessFilter = EVERYTHING
    ) -> Assistant:
        def create(transaction: Transaction) -> Assistant:
            existing = _find(transaction.db, assistant.assistant_id)
            if existing is None:
                _write(transaction.db, assistant)
                _add_version(transaction.db, assistant, assistant.created_at)
                return assistant
            if if_exists != "do_nothing" or not access.matches(existing.metadata):
                raise Conflict(f"Assistant {assistant.assistant_id} already exists")
            return existing

        # At every startup an assistant is created for each graph, and nearly always it exists already.
        if if_exists == "do_nothing" and (
            (existing := await self.get(assistant.assistant_id, access=access)) is not None
        ):
            return existing
        return await self._writer.do(create)

    async def get(self, assistant_id: AssistantId, *, access: AccessFilter = EVERYTHING) -> Assistant | None:
        with self._readers.lend() as db:
            return _find(db, assistant_id, access)

    async def update(
        self,
        assistant_id: AssistantId,
        change: Callable[[Assistant], Assistant],
        now: int,
        *,
        access: AccessFilter = EVERYTHING,
    ) -> Assistant:
        def update(transaction: Transaction) -> Assistant:
            existing = _require(transaction.db, assistant_id, access)
            changed = replace(
                change(existing),
                assistant_id=assistant_id,
                created_at=existing.created_at,
                updated_at=now,
                version=_next_version(transaction.db, assistant_id),
                owner=existing.owner,
            )
            _write(transaction.db, changed)
            _add_version(transaction.db, changed, now)
            return changed

        return await self._writer.do(update)

    async def set_latest(
        self, assistant_id: AssistantId, version: int, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Assistant:
        def set_latest(transaction: Transaction) -> Assistant:
            existing = _require(transaction.db, assistant_id, access)
            restored = _find_version(transaction.db, assistant_id, version).restored(existing, now)
            _write(transaction.db, restored)
            return restored

        return await self._writer.do(set_latest)

    async def versions(
        self,
        assistant_id: AssistantId,
        *,
        metadata: dict[str, Any],
        limit: int = 10,
        offset: int = 0,
        access: AccessFilter = EVERYTHING,
    ) -> list[AssistantVersion]:
        return await self._readers.run_in_thread(partial(_versions, assistant_id, metadata, limit, offset, access))

    async def delete(self, assistant_id: AssistantId, *, access: AccessFilter = EVERYTHING) -> None:
        def delete(transaction: Transaction) -> None:
            _require(transaction.db, assistant_id, access)
            for table in ("assistants", "assistant_versions", "crons"):
                transaction.db.execute(f"DELETE FROM {table} WHERE assistant = ?", (key_of(assistant_id),))

        await self._writer.do(delete, essential=True)

    async def search(self, query: AssistantQuery, *, access: AccessFilter = EVERYTHING) -> list[Assistant]:
        return await self._readers.run_in_thread(partial(_search, query, access))

    async def count(self, query: AssistantQuery, *, access: AccessFilter = EVERYTHING) -> int:
        return await self._readers.run_in_thread(partial(_count, query, access))


# Not `INSERT OR REPLACE`: it would not fire the trigger that removes the labels of the replaced row.
_WRITE = """INSERT INTO assistants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET graph_id = excluded.graph_id, name = excluded.name, created_at = excluded.created_at,
  updated_at = excluded.updated_at, version = excluded.version, description = excluded.description,
  config = excluded.config, context = excluded.context, metadata = excluded.metadata, owner = excluded.owner"""


def _write(db: apsw.Connection, assistant: Assistant) -> None:
    db.execute(_WRITE, _row(assistant))


def _add_version(db: apsw.Connection, assistant: Assistant, at: int) -> None:
    row = (
        key_of(assistant.assistant_id),
        assistant.version,
        assistant.graph_id,
        assistant.name,
        at,
        assistant.description,
        to_text(assistant.config),
        to_text(assistant.context),
        to_text(assistant.metadata),
    )
    db.execute("INSERT INTO assistant_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _next_version(db: apsw.Connection, assistant_id: AssistantId) -> int:
    sql = "SELECT max(version) FROM assistant_versions WHERE assistant = ?"
    return int(db.execute(sql, (key_of(assistant_id),)).get) + 1


def _find_version(db: apsw.Connection, assistant_id: AssistantId, version: int) -> AssistantVersion:
    sql = "SELECT * FROM assistant_versions WHERE assistant = ? AND version = ?"
    for row in fetch(db, sql, (key_of(assistant_id), version)):
        return _version(row)
    raise NotFound(f"Version {version} not found for assistant {assistant_id}")


def _versions(
    assistant_id: AssistantId,
    metadata: dict[str, Any],
    limit: int,
    offset: int,
    access: AccessFilter,
    db: apsw.Connection,
) -> list[AssistantVersion]:
    matching = "AND json_contains(metadata, ?)" if metadata else ""
    allowed, bindings = and_allows("metadata", access)
    where = f"assistant = ? {matching}{allowed}"
    sql = f"SELECT * FROM assistant_versions WHERE {where} ORDER BY version DESC LIMIT ? OFFSET ?"
    filters = [apsw.pyobject(metadata)] if metadata else []
    return [_version(row) for row in fetch(db, sql, [key_of(assistant_id), *filters, *bindings, limit, offset])]


def _find(db: apsw.Connection, assistant_id: AssistantId, access: AccessFilter = EVERYTHING) -> Assistant | None:
    allowed, bindings = and_allows("metadata", access)
    for row in fetch(db, f"SELECT * FROM assistants WHERE assistant = ?{allowed}", [key_of(assistant_id), *bindings]):
        return _assistant(row)
    return None


def _require(db: apsw.Connection, assistant_id: AssistantId, access: AccessFilter) -> Assistant:
    if (existing := _find(db, assistant_id, access)) is None:
        raise NotFound(f"Assistant {assistant_id} not found")
    return existing


def _search(query: AssistantQuery, access: AccessFilter, db: apsw.Connection) -> list[Assistant]:
    where, bindings = _where(query, access)
    order = "DESC" if query.descending else "ASC"
    sql = (
        f"SELECT * FROM assistants {where} ORDER BY {_SORT[query.sort_by]} {order}, assistant {order} LIMIT ? OFFSET ?"
    )
    return [_assistant(row) for row in fetch(db, sql, [*bindings, query.limit, query.offset])]


def _count(query: AssistantQuery, access: AccessFilter, db: apsw.Connection) -> int:
    where, bindings = _where(query, access)
    return int(db.execute(f"SELECT count(*) FROM assistants {where}", bindings).get)


def _where(query: AssistantQuery, access: AccessFilter) -> tuple[str, list[Any]]:
    terms: list[str] = []
    bindings: list[Any] = []
    for term, values in (labelled("assistant_labels", "assistant", access), allows("metadata", access)):
        terms += [term] if term else []
        bindings += values
    if query.graph_id is not None:
        terms.append("graph_id = ?")
        bindings.append(bindable(query.graph_id))
    if query.name is not None:
        terms.append("is_named(name, ?)")
        bindings.append(apsw.pyobject(query.name))
    if query.metadata:
        terms.append("json_contains(metadata, ?)")
        bindings.append(apsw.pyobject(query.metadata))
    return ("WHERE " + " AND ".join(terms) if terms else ""), bindings


def _row(assistant: Assistant) -> tuple[Any, ...]:
    return (
        key_of(assistant.assistant_id),
        assistant.graph_id,
        assistant.name,
        assistant.created_at,
        assistant.updated_at,
        assistant.version,
        assistant.description,
        to_text(assistant.config),
        to_text(assistant.context),
        to_text(assistant.metadata),
        assistant.owner,
    )


def _assistant(row: tuple[Any, ...]) -> Assistant:
    key, graph_id, name, created, updated, version, description, config, context, metadata, owner = row
    return Assistant(
        assistant_id=AssistantId(name_of(key)),
        graph_id=graph_id,
        name=name,
        created_at=created,
        updated_at=updated,
        version=version,
        description=description,
        config=from_text(config),
        context=from_text(context),
        metadata=from_text(metadata),
        owner=owner,
    )


def _version(row: tuple[Any, ...]) -> AssistantVersion:
    key, version, graph_id, name, created, description, config, context, metadata = row
    return AssistantVersion(
        assistant_id=AssistantId(name_of(key)),
        version=version,
        graph_id=graph_id,
        name=name,
        created_at=created,
        description=description,
        config=from_text(config),
        context=from_text(context),
        metadata=from_text(metadata),
    )
