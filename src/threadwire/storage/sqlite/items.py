"""The store: items by namespace and key, and their vectors for semantic search."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import apsw

from threadwire.core.access_filter import EVERYTHING, AccessFilter
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
    rank_by_score,
    select_namespaces,
)
from threadwire.core.vectors import similarities
from threadwire.errors import Conflict, StorageUnavailable
from threadwire.storage.sqlite.access_terms import and_allows
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import bindable, fetch, from_bindable, from_text, read_transaction, to_text
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.write_jobs import Operation
from threadwire.storage.sqlite.writer import Writer

_ITEM = "position, namespace, key, value, created_at, updated_at, ttl, owner"
_CHUNK = 1000


class SqliteItems:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    def batch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        batch = _Batch(operations, now)
        self._readers.run(batch.read)
        if (job := self._enqueue(batch)) is not None:
            job.block_or_raise()
        return batch.results

    async def abatch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        batch = _Batch(operations, now)
        if batch.reads_are_short:
            self._readers.run(batch.read)
        else:
            await self._readers.run_in_thread(batch.read)
        if (job := self._enqueue(batch)) is not None:
            await job.wait_or_raise()
        return batch.results

    async def sweep(self, now: int, limit: int = 1000) -> int:
        return await self._writer.do_on_writer_thread(partial(_sweep, now, limit), essential=True)

    def _enqueue(self, batch: "_Batch") -> Operation[None] | None:
        """Enqueue the changes of a batch. Returns the job to wait for, if any."""
        if batch.refreshed:
            with suppress(StorageUnavailable):  # the read succeeds nevertheless
                self._writer.enqueue(Operation(partial(_refresh, batch.refreshed, batch.now)))
        if not batch.changes:
            return None
        job = Operation(batch.change, weight=batch.weight)
        self._writer.enqueue(job, urgent=True)
        return job


class _Batch:
    """Operations: the reads are executed first, on a read connection, the writes by the writer. Values are serialized
    immediately, because the caller may modify them later."""

    def __init__(self, operations: Sequence[ItemOperation], now: int) -> None:
        self.now = now
        self.results: list[ItemResult] = []
        self.refreshed: list[int] = []
        self.changes: list[_PreparedPut | DropItem] = []
        self.weight = 0
        self._operations = operations
        for operation in operations:
            if isinstance(operation, PutItem):
                prepared = _PreparedPut(operation)
                self.changes.append(prepared)
                self.weight += prepared.weight
            elif isinstance(operation, DropItem):
                self.changes.append(operation)

    @property
    def reads_are_short(self) -> bool:
        return not any(isinstance(operation, (SearchItems, ListNamespaces)) for operation in self._operations)

    def read(self, db: apsw.Connection) -> None:
        with read_transaction(db):
            self.results = [self._read(db, operation) for operation in self._operations]

    def change(self, transaction: Transaction) -> None:
        for change in self.changes:
            if isinstance(change, _PreparedPut):
                change.check(transaction.db, self.now)  # before the first change: all or nothing
        for change in self.changes:
            if isinstance(change, DropItem):
                _remove(transaction.db, _text_of(change.namespace), change.key, change.access)
            else:
                change.write(transaction.db, self.now)

    def _read(self, db: apsw.Connection, operation: ItemOperation) -> ItemResult:
        match operation:
            case GetItem():
                return next(iter(self._shown(_get(db, operation, self.now), operation.refresh)), None)
            case SearchItems():
                return self._shown(_search(db, operation, self.now), operation.refresh)
            case ListNamespaces():
                return select_namespaces(_namespaces(db, operation, self.now), operation)
            case PutItem() | DropItem():
                return None

    def _shown(self, rows: "list[tuple[_Row, float | None]]", refresh: bool) -> list[Item]:
        if refresh:
            self.refreshed += [position for (position, *_, ttl, _), _ in rows if ttl is not None]
        return [_item(row, score) for row, score in rows]


_Row = tuple[Any, ...]


# Changing


class _PreparedPut:
    def __init__(self, put: PutItem) -> None:
        self._put = put
        self._namespace = _text_of(put.namespace)
        self._value = to_text(put.value)
        self.weight = len(self._value) + sum(map(len, put.vectors))

    def check(self, db: apsw.Connection, now: int) -> None:
        """Raise `Conflict` if the put would replace a foreign item."""
        put = self._put
        if put.access:
            bindings = (self._namespace, bindable(put.key), now, apsw.pyobject(put.access))
            sql = "namespace = ? AND key = ? AND ifnull(expires_at > ?, 1) AND NOT access_allows(value, ?)"
            if db.execute(f"SELECT 1 FROM items WHERE {sql}", bindings).get is not None:
                raise Conflict(f"Item '{put.key}' already exists")

    def write(self, db: apsw.Connection, now: int) -> None:
        put = self._put
        created_at, owner = now, put.owner
        for first_created_at, expires_at, first_owner in _remove(db, self._namespace, put.key):
            if expires_at is None or expires_at > now:
                created_at, owner = first_created_at, first_owner
        expires_at = None if put.ttl is None else now + put.ttl
        db.execute(
            "INSERT INTO items (namespace, key, value, created_at, updated_at, ttl, expires_at, owner)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (self._namespace, bindable(put.key), self._value, created_at, now, put.ttl, expires_at, owner),
        )
        item = db.last_insert_rowid()
        db.executemany(
            "INSERT INTO item_vectors VALUES (?, ?, ?)", [(item, n, vector) for n, vector in enumerate(put.vectors)]
        )


def _remove(
    db: apsw.Connection, namespace: str, key: str, access: AccessFilter = EVERYTHING
) -> list[tuple[int, int | None, str | None]]:
    """Remove an item. Returns its `created_at`, `expires_at` and owner."""
    allowed, bindings = and_allows("value", access)
    sql = f"SELECT position, created_at, expires_at, owner FROM items WHERE namespace = ? AND key = ?{allowed}"
    removed = fetch(db, sql, [namespace, bindable(key), *bindings])
    _remove_at(db, [position for position, *_ in removed])
    return [(created_at, expires_at, owner) for _, created_at, expires_at, owner in removed]


def _remove_at(db: apsw.Connection, positions: list[int]) -> None:
    db.executemany("DELETE FROM item_vectors WHERE item = ?", [(position,) for position in positions])
    db.executemany("DELETE FROM items WHERE position = ?", [(position,) for position in positions])


def _refresh(positions: list[int], now: int, transaction: Transaction) -> None:
    """Restart the TTL of these items. An item that was replaced meanwhile has another position and a fresh TTL."""
    transaction.db.executemany(
        "UPDATE items SET expires_at = ? + ttl WHERE position = ?", [(now, position) for position in positions]
    )


def _sweep(now: int, limit: int, transaction: Transaction) -> int:
    expired = fetch(transaction.db, "SELECT position FROM items WHERE expires_at <= ? LIMIT ?", (now, limit))
    _remove_at(transaction.db, [position for (position,) in expired])
    return len(expired)


# Reading


def _get(db: apsw.Connection, get: GetItem, now: int) -> list[tuple[_Row, float | None]]:
    allowed, bindings = and_allows("value", get.access)
    sql = f"SELECT {_ITEM} FROM items WHERE namespace = ? AND key = ? AND ifnull(expires_at > ?, 1){allowed}"
    rows = fetch(db, sql, [_text_of(get.namespace), bindable(get.key), now, *bindings])
    return [(row, None) for row in rows]


def _search(db: apsw.Connection, search: SearchItems, now: int) -> list[tuple[_Row, float | None]]:
    where, bindings = _where(search.prefix, now, search.access)
    if search.filter:
        where += " AND json_satisfies(value, ?)"
        bindings.append(apsw.pyobject(search.filter))
    if search.near is not None:
        return _nearest(db, search, where, bindings)
    sql = f"SELECT {_ITEM} FROM items WHERE {where} ORDER BY position DESC LIMIT ? OFFSET ?"
    page = (max(0, search.limit), max(0, search.offset))  # SQLite treats a negative limit as no limit
    return [(row, None) for row in fetch(db, sql, [*bindings, *page])]


def _nearest(
    db: apsw.Connection, search: SearchItems, where: str, bindings: list[Any]
) -> list[tuple[_Row, float | None]]:
    assert search.near is not None
    sql = f"""SELECT position, vector FROM items LEFT JOIN item_vectors ON item = position
               WHERE {where} ORDER BY position DESC, n"""
    order = rank_by_score(_scores(iter(db.execute(sql, bindings)), search.near))
    found = []
    for position, score in order[search.offset : search.offset + search.limit]:
        found += [(row, score) for row in fetch(db, f"SELECT {_ITEM} FROM items WHERE position = ?", (position,))]
    return found


def _scores(rows: Iterator[tuple[int, bytes | None]], near: bytes) -> Iterator[tuple[int, float | None]]:
    """Score a chunk of rows at a time, because all vectors together may need too much memory."""
    while chunk := list(islice(rows, _CHUNK)):
        scores = similarities(near, [vector or b"" for _, vector in chunk])
        yield from zip((position for position, _ in chunk), scores, strict=True)


def _namespaces(db: apsw.Connection, wanted: ListNamespaces, now: int) -> list[Labels]:
    """Return the namespaces that may match. Only the longest prefix without a wildcard is applied here."""
    longest = max((_before_wildcard(path) for path in wanted.prefixes), key=len, default=())
    where, bindings = _where(longest, now, wanted.access)
    return [
        tuple(json.loads(text))
        for (text,) in fetch(db, f"SELECT DISTINCT namespace FROM items WHERE {where}", bindings)
    ]


def _before_wildcard(path: Labels) -> Labels:
    return path[: path.index(ANY)] if ANY in path else path


def _where(prefix: Labels, now: int, access: AccessFilter) -> tuple[str, list[Any]]:
    """Select the items in the namespace or below it that have not expired and are not foreign."""
    allowed, extra = and_allows("value", access)
    where, bindings = f"ifnull(expires_at > ?, 1){allowed}", [now, *extra]
    if not prefix:
        return where, bindings
    # In a JSON array a label is followed by a comma or a closing bracket, and the comma sorts first.
    text = _text_of(prefix)
    return f"{where} AND namespace BETWEEN ? AND ?", [*bindings, f"{text[:-1]},", text]


def _text_of(namespace: Labels) -> str:
    """Encode in ASCII, so that every label, even a lone surrogate, has its own text form."""
    return json.dumps(namespace, separators=(",", ":"))


def _item(row: _Row, score: float | None) -> Item:
    _, namespace, key, value, created_at, updated_at, _, owner = row
    labels = tuple(json.loads(namespace))
    return Item(labels, from_bindable(key), from_text(value), created_at, updated_at, owner, score)
