"""The store: items by namespace and key, and their vectors for semantic search."""

import asyncio
import json
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from asyncpg import Record

from threadwire.core.access_filter import AccessFilter
from threadwire.core.store_items import (
    ANY,
    DropItem,
    GetItem,
    Item,
    ItemOperation,
    ItemResult,
    Labels,
    ListNamespaces,
    PutItem,
    SearchItems,
    matches_filter,
    select_namespaces,
)
from threadwire.errors import Conflict, StorageUnavailable
from threadwire.storage.postgres.access_terms import Bindings, and_allows, has
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.json_columns import from_text, searchable, to_text
from threadwire.storage.postgres.text_columns import escaped, escaped_or_null, unescaped, unescaped_or_none
from threadwire.storage.postgres.transaction import Transaction

_ITEM = "position, namespace, key, value, created_at, updated_at, ttl, owner"
_LIVE = "(expires_at IS NULL OR expires_at > $1)"
# An item that has expired is replaced as if it did not exist. The new position makes it the last one put.
_PUT = """
WITH replaced AS (DELETE FROM item_vectors WHERE name = $2)
INSERT INTO items AS old (name, namespace, key, value, search, created_at, updated_at, ttl, expires_at, owner)
VALUES ($2, $3, $4, $5, $6::jsonb, $1, $1, $7, $8, $9)
ON CONFLICT (name) DO UPDATE SET position = DEFAULT, value = excluded.value, search = excluded.search,
  created_at = CASE WHEN old.expires_at <= $1 THEN excluded.created_at ELSE old.created_at END,
  owner = CASE WHEN old.expires_at <= $1 THEN excluded.owner ELSE old.owner END,
  updated_at = excluded.updated_at, ttl = excluded.ttl, expires_at = excluded.expires_at
"""
_PUT_VECTOR = "INSERT INTO item_vectors VALUES ($1, $2, $3)"
_SWEEP = """WITH expired AS (
  SELECT position FROM items WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM items USING expired WHERE items.position = expired.position RETURNING 1"""
_INDEXED_LABELS = 500
"""How many characters of a namespace are in the index."""
_CHUNK = 100
_MAX_DIMENSIONS = 16_000
"""The limit of pgvector."""


class PostgresItems:
    def __init__(self, database: Database) -> None:
        self._database = database

    def batch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        return self._database.run_blocking(self._batch(_Batch(operations, now)))

    async def abatch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        return await self._database.run(self._batch(_Batch(operations, now)))

    async def sweep(self, now: int, limit: int = 1000) -> int:
        async def sweep(transaction: Transaction) -> int:
            return len(await transaction.db.fetch(_SWEEP, now, limit))

        return await self._database.write(sweep)

    async def _batch(self, batch: "_Batch") -> list[ItemResult]:
        if batch.has_reads:
            await self._database.read_here(batch.read)
        if batch.refreshed:
            with suppress(StorageUnavailable):  # the read succeeds nevertheless
                await self._database.write_here(batch.refresh)
        if batch.changes:
            await self._database.write_here(batch.change)
        return batch.results


class _Batch:
    """Values are serialized immediately, because the caller may modify them later."""

    def __init__(self, operations: Sequence[ItemOperation], now: int) -> None:
        self.now = now
        self.results: list[ItemResult] = [None] * len(operations)
        self.refreshed: list[int] = []
        self.changes: list[_PreparedPut | DropItem] = [
            _PreparedPut(operation) if isinstance(operation, PutItem) else operation
            for operation in operations
            if isinstance(operation, (PutItem, DropItem))
        ]
        self._operations = operations

    @property
    def has_reads(self) -> bool:
        return len(self.changes) < len(self._operations)

    async def read(self, db: Connection) -> None:
        self.refreshed = []
        async with db.transaction(isolation="repeatable_read", readonly=True):
            self.results = [await self._read(db, operation) for operation in self._operations]

    async def change(self, transaction: Transaction) -> None:
        for change in self.changes:
            if isinstance(change, _PreparedPut):
                await change.check(transaction.db, self.now)  # before the first change: all or nothing
        for change in self.changes:
            if isinstance(change, DropItem):
                await _drop(transaction.db, change)
            else:
                await change.write(transaction.db, self.now)

    async def refresh(self, transaction: Transaction) -> None:
        """Restart the TTL of items that were read. One that was replaced meanwhile has another position and a fresh
        TTL."""
        sql = "UPDATE items SET expires_at = $1 + ttl WHERE position = ANY($2)"
        await transaction.db.execute(sql, self.now, sorted(self.refreshed))

    async def _read(self, db: Connection, operation: ItemOperation) -> ItemResult:
        match operation:
            case GetItem():
                return next(iter(self._shown(await _get(db, operation, self.now), operation.refresh)), None)
            case SearchItems():
                return self._shown(await _search(db, operation, self.now), operation.refresh)
            case ListNamespaces():
                return select_namespaces(await _namespaces(db, operation, self.now), operation)
            case PutItem() | DropItem():
                return None

    def _shown(self, rows: list[Record], refresh: bool) -> list[Item]:
        if refresh:
            self.refreshed += [row["position"] for row in rows if row["ttl"] is not None]
        return [_item(row) for row in rows]


# Changing


class _PreparedPut:
    def __init__(self, put: PutItem) -> None:
        self._put = put
        self._name = item_name(put.namespace, put.key)
        self._value = to_text(put.value)

    async def check(self, db: Connection, now: int) -> None:
        """Raise `Conflict` if the put would replace a foreign item."""
        put = self._put
        if put.access:
            bindings = Bindings([now, self._name])
            foreign = f"(true{and_allows('search', put.access, bindings)}) IS NOT TRUE"
            sql = f"SELECT true FROM items WHERE name = $2 AND {_LIVE} AND {foreign} FOR UPDATE"
            if await db.fetchval(sql, *bindings):
                raise Conflict(f"Item '{put.key}' already exists")

    async def write(self, db: Connection, now: int) -> None:
        put = self._put
        await db.execute(
            _PUT,
            now,
            self._name,
            _text_of(put.namespace),
            escaped(put.key),
            self._value,
            searchable(self._value),
            put.ttl,
            None if put.ttl is None else now + put.ttl,
            escaped_or_null(put.owner),
        )
        if put.vectors:
            vectors = [(self._name, n, array("f", vector).tolist()) for n, vector in enumerate(put.vectors)]
            await db.executemany(_PUT_VECTOR, vectors)


async def _drop(db: Connection, drop: DropItem) -> None:
    bindings = Bindings([item_name(drop.namespace, drop.key)])
    allowed = and_allows("search", drop.access, bindings)
    await db.execute(f"DELETE FROM items WHERE name = $1{allowed}", *bindings)


# Reading


async def _get(db: Connection, get: GetItem, now: int) -> list[Record]:
    bindings = Bindings([now, item_name(get.namespace, get.key)])
    allowed = and_allows("search", get.access, bindings)
    rows: list[Record] = await db.fetch(f"SELECT {_ITEM} FROM items WHERE name = $2 AND {_LIVE}{allowed}", *bindings)
    return rows


async def _search(db: Connection, search: SearchItems, now: int) -> list[Record]:
    bindings = Bindings([now])
    terms = _below(search.prefix, search.access, bindings)
    plain, others = _divided(search.filter)
    if plain:
        terms += f" AND {has('search', plain, bindings)}"
    score = "NULL::float8" if search.near is None else await _score(db, search.near, bindings)
    sql = f"""SELECT {_ITEM}, score FROM items CROSS JOIN LATERAL (SELECT {score} AS score) AS scored
               WHERE {terms} ORDER BY score DESC NULLS LAST, position DESC"""
    if search.near is None:
        sql = f"SELECT {_ITEM} FROM items WHERE {terms} ORDER BY position DESC"
    if others:
        return await _filtered(db.cursor(sql, *bindings, prefetch=_CHUNK), search, others)
    page = bindings.page(search.limit, search.offset)
    rows: list[Record] = await db.fetch(f"{sql} {page}", *bindings)
    return rows


async def _score(db: Connection, near: bytes, bindings: Bindings) -> str:
    """Return an expression for the greatest cosine of an item's vectors with `near`. Vectors with a different number of
    dimensions do not count."""
    wanted = array("f", near).tolist()
    vector, dimensions = bindings.bind(wanted), bindings.bind(len(wanted))
    cosine = f"(SELECT sum(one::float8 * other) FROM unnest(v.vector, {vector}::real[]) AS pair (one, other))"
    if 0 < len(wanted) <= _MAX_DIMENSIONS and await db.fetchval("SELECT to_regtype('vector') IS NOT NULL"):
        cosine = f"-(v.vector::vector <#> {vector}::real[]::vector)"
    return f"""(SELECT max(CASE WHEN cardinality(v.vector) = {dimensions}::integer THEN {cosine} END)
                  FROM item_vectors AS v WHERE v.name = items.name)"""


def _divided(wanted: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide a filter into the values that the index can look up, and the other conditions. A missing key is null, so
    null cannot be looked up."""
    plain = {key: each for key, each in wanted.items() if isinstance(each, (str, int, float))}
    return plain, {key: each for key, each in wanted.items() if key not in plain}


async def _filtered(rows: AsyncIterator[Record], search: SearchItems, others: dict[str, Any]) -> list[Record]:
    """Read until the page is full."""
    found: list[Record] = []
    end = max(0, search.offset) + max(0, search.limit)
    async for row in rows:
        if len(found) >= end:
            break
        if matches_filter(from_text(row["value"]), others):
            found.append(row)
        await asyncio.sleep(0)  # values may be large, and other work waits for this thread
    return found[max(0, search.offset) :]


async def _namespaces(db: Connection, wanted: ListNamespaces, now: int) -> list[Labels]:
    """Return the namespaces that may match. Only the longest prefix without a wildcard is applied here."""
    longest = max((_before_wildcard(path) for path in wanted.prefixes), key=len, default=())
    bindings = Bindings([now])
    terms = _below(longest, wanted.access, bindings)
    rows = await db.fetch(f"SELECT DISTINCT namespace FROM items WHERE {terms}", *bindings)
    return [tuple(json.loads(text)) for (text,) in rows]


def _before_wildcard(path: Labels) -> Labels:
    return path[: path.index(ANY)] if ANY in path else path


def _below(prefix: Labels, access: AccessFilter, bindings: Bindings) -> str:
    """Select the items in the namespace or below it that have not expired and are not foreign."""
    terms = f"{_LIVE}{and_allows('search', access, bindings)}"
    if not prefix:
        return terms
    # In a JSON array a label is followed by a comma or a closing bracket, and the comma sorts first.
    text = _text_of(prefix)
    first, last = f"{text[:-1]},", text
    indexed = [bindings.bind(each[:_INDEXED_LABELS]) for each in (first, last)]
    exact = [bindings.bind(each) for each in (first, last)]
    return f"""{terms} AND left(namespace, {_INDEXED_LABELS}) BETWEEN {indexed[0]} AND {indexed[1]}
                 AND namespace BETWEEN {exact[0]} AND {exact[1]}"""


def _text_of(namespace: Labels) -> str:
    """Encode in ASCII, so that every label, even a lone surrogate, has its own text form."""
    return json.dumps(namespace, separators=(",", ":"))


def item_name(namespace: Labels, key: str) -> bytes:
    text = json.dumps([namespace, key])
    return blake2b(text.encode("ascii"), digest_size=16).digest()


def _item(row: Record) -> Item:
    return Item(
        namespace=tuple(json.loads(row["namespace"])),
        key=unescaped(row["key"]),
        value=from_text(row["value"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        owner=unescaped_or_none(row["owner"]),
        score=row.get("score"),
    )
