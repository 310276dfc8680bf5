"""Assistants and all their versions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from asyncpg import Connection, Record

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.ids import AssistantId
from threadwire.core.records import Assistant, AssistantQuery, AssistantVersion
from threadwire.errors import Conflict, NotFound
from threadwire.storage.postgres.access_terms import Bindings, allows, and_allows, has, where
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.json_columns import from_text, searchable, to_text
from threadwire.storage.postgres.text_columns import escaped, escaped_or_null, unescaped, unescaped_or_none
from threadwire.storage.postgres.transaction import Transaction

_COLUMNS = (
    """assistant, graph_id, name, created_at, updated_at, version, description, config, context, metadata, owner"""
)
_ASSISTANTS = f"SELECT {_COLUMNS} FROM assistants"
_INSERT = f"""INSERT INTO assistants ({_COLUMNS}, lower_name, search)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13::jsonb) ON CONFLICT DO NOTHING RETURNING true"""
_UPDATE = """UPDATE assistants SET graph_id = $2, name = $3, created_at = $4, updated_at = $5, version = $6,
  description = $7, config = $8, context = $9, metadata = $10, owner = $11, lower_name = $12, search = $13::jsonb
 WHERE assistant = $1"""
_VERSION_COLUMNS = "assistant, version, graph_id, name, created_at, description, config, context, metadata"
_VERSIONS = f"SELECT {_VERSION_COLUMNS} FROM assistant_versions"
_INSERT_VERSION = f"""INSERT INTO assistant_versions ({_VERSION_COLUMNS}, search)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb)"""
_SORT = {
    "assistant_id": "assistant",
    "graph_id": "graph_id",
    "name": "name",
    "created_at": "created_at",
    "updated_at": "updated_at",
}


class PostgresAssistants:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, assistant: Assistant, *, if_exists: str = "raise", access: AccessFilter = EVERYTHING
    ) -> Assistant:
        async def create(transaction: Transaction) -> Assistant:
            if await transaction.db.fetchval(_INSERT, *_row(assistant)):
                await _add_version(transaction.db, assistant, assistant.created_at)
                return assistant
            existing = await _find(transaction.db, assistant.assistant_id, access)
            if existing is None or if_exists != "do_nothing":
                raise Conflict(f"Assistant {assistant.assistant_id} already exists")
            return existing

        return await self._database.write(create)

    async def get(self, assistant_id: AssistantId, *, access: AccessFilter = EVERYTHING) -> Assistant | None:
        return await self._database.read(lambda db: _find(db, assistant_id, access))

    async def update(
        self,
        assistant_id: AssistantId,
        change: Callable[[Assistant], Assistant],
        now: int,
        *,
        access: AccessFilter = EVERYTHING,
    ) -> Assistant:
        async def update(transaction: Transaction) -> Assistant:
            existing = await _lock(transaction.db, assistant_id, access)
            changed = replace(
                change(existing),
                assistant_id=assistant_id,
                created_at=existing.created_at,
                updated_at=now,
                version=await _next_version(transaction.db, assistant_id),
                owner=existing.owner,
            )
            await transaction.db.execute(_UPDATE, *_row(changed))
            await _add_version(transaction.db, changed, now)
            return changed

        return await self._database.write(update)

    async def set_latest(
        self, assistant_id: AssistantId, version: int, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Assistant:
        async def set_latest(transaction: Transaction) -> Assistant:
            existing = await _lock(transaction.db, assistant_id, access)
            restored = (await _find_version(transaction.db, assistant_id, version)).restored(existing, now)
            await transaction.db.execute(_UPDATE, *_row(restored))
            return restored

        return await self._database.write(set_latest)

    async def versions(
        self,
        assistant_id: AssistantId,
        *,
        metadata: dict[str, Any],
        limit: int = 10,
        offset: int = 0,
        access: AccessFilter = EVERYTHING,
    ) -> list[AssistantVersion]:
        bindings = Bindings([key_of(assistant_id)])
        matching = has("search", metadata, bindings) if metadata else ""
        terms = where(["assistant = $1", matching, allows("search", access, bindings)])
        sql = f"{_VERSIONS} {terms} ORDER BY version DESC {bindings.page(limit, offset)}"
        return [_version(row) for row in await self._database.read(lambda db: db.fetch(sql, *bindings))]

    async def delete(self, assistant_id: AssistantId, *, access: AccessFilter = EVERYTHING) -> None:
        async def delete(transaction: Transaction) -> None:
            await _lock(transaction.db, assistant_id, access)
            for table in ("assistants", "assistant_versions", "crons"):
                await transaction.db.execute(f"DELETE FROM {table} WHERE assistant = $1", key_of(assistant_id))

        await self._database.write(delete)

    async def search(self, query: AssistantQuery, *, access: AccessFilter = EVERYTHING) -> list[Assistant]:
        bindings = Bindings()
        terms = _where(query, access, bindings)
        order = "DESC" if query.descending else "ASC"
        page = bindings.page(query.limit, query.offset)
        sql = f"{_ASSISTANTS} {terms} ORDER BY {_SORT[query.sort_by]} {order}, assistant {order} {page}"
        return [_assistant(row) for row in await self._database.read(lambda db: db.fetch(sql, *bindings))]

    async def count(self, query: AssistantQuery, *, access: AccessFilter = EVERYTHING) -> int:
        bindings = Bindings()
        sql = f"SELECT count(*) FROM assistants {_where(query, access, bindings)}"
        return int(await self._database.read(lambda db: db.fetchval(sql, *bindings)))


async def _add_version(db: Connection, assistant: Assistant, at: int) -> None:
    metadata = to_text(assistant.metadata)
    await db.execute(
        _INSERT_VERSION,
        key_of(assistant.assistant_id),
        assistant.version,
        escaped(assistant.graph_id),
        escaped(assistant.name),
        at,
        escaped_or_null(assistant.description),
        to_text(assistant.config),
        to_text(assistant.context),
        metadata,
        searchable(metadata),
    )


async def _next_version(db: Connection, assistant_id: AssistantId) -> int:
    sql = "SELECT max(version) FROM assistant_versions WHERE assistant = $1"
    return int(await db.fetchval(sql, key_of(assistant_id))) + 1


async def _find_version(db: Connection, assistant_id: AssistantId, version: int) -> AssistantVersion:
    # Compared as text, because a version that a client asks for may be too large for the column.
    row = await db.fetchrow(
        f"{_VERSIONS} WHERE assistant = $1 AND version::text = $2", key_of(assistant_id), str(version)
    )
    if row is None:
        raise NotFound(f"Version {version} not found for assistant {assistant_id}")
    return _version(row)


async def _find(
    db: Connection, assistant_id: AssistantId, access: AccessFilter = EVERYTHING, *, lock: bool = False
) -> Assistant | None:
    bindings = Bindings([key_of(assistant_id)])
    sql = f"{_ASSISTANTS} WHERE assistant = $1{and_allows('search', access, bindings)}{' FOR UPDATE' if lock else ''}"
    row = await db.fetchrow(sql, *bindings)
    return None if row is None else _assistant(row)


async def _lock(db: Connection, assistant_id: AssistantId, access: AccessFilter) -> Assistant:
    if (existing := await _find(db, assistant_id, access, lock=True)) is None:
        raise NotFound(f"Assistant {assistant_id} not found")
    return existing


def _where(query: AssistantQuery, access: AccessFilter, bindings: Bindings) -> str:
    terms = [allows("search", access, bindings)]
    if query.graph_id is not None:
        terms.append(f"graph_id = {bindings.bind(escaped(query.graph_id))}")
    if query.name is not None:
        terms.append(f"strpos(lower_name, {bindings.bind(escaped(query.name.lower()))}) > 0")
    if query.metadata:
        terms.append(has("search", query.metadata, bindings))
    return where(terms)


def _row(assistant: Assistant) -> tuple[Any, ...]:
    metadata = to_text(assistant.metadata)
    return (
        key_of(assistant.assistant_id),
        escaped(assistant.graph_id),
        escaped(assistant.name),
        assistant.created_at,
        assistant.updated_at,
        assistant.version,
        escaped_or_null(assistant.description),
        to_text(assistant.config),
        to_text(assistant.context),
        metadata,
        escaped_or_null(assistant.owner),
        escaped(assistant.name.lower()),
        searchable(metadata),
    )


def _assistant(row: Record) -> Assistant:
    key, graph_id, name, created, updated, version, description, config, context, metadata, owner = row
    return Assistant(
        assistant_id=AssistantId(name_of(key)),
        graph_id=unescaped(graph_id),
        name=unescaped(name),
        created_at=created,
        updated_at=updated,
        version=version,
        description=unescaped_or_none(description),
        config=from_text(config),
        context=from_text(context),
        metadata=from_text(metadata),
        owner=unescaped_or_none(owner),
    )


def _version(row: Record) -> AssistantVersion:
    key, version, graph_id, name, created, description, config, context, metadata = row
    return AssistantVersion(
        assistant_id=AssistantId(name_of(key)),
        version=version,
        graph_id=unescaped(graph_id),
        name=unescaped(name),
        created_at=created,
        description=unescaped_or_none(description),
        config=from_text(config),
        context=from_text(context),
        metadata=from_text(metadata),
    )
