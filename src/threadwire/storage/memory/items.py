from collections.abc import Iterator, Sequence
from dataclasses import replace

from threadwire.core.access_filter import AccessFilter
from threadwire.core.json import native
from threadwire.core.store_items import (
    DropItem,
    GetItem,
    Item,
    ItemOperation,
    ItemResult,
    ListNamespaces,
    PutItem,
    SearchItems,
    matches_filter,
    rank_by_score,
    select_namespaces,
)
from threadwire.core.vectors import similarities
from threadwire.errors import Conflict
from threadwire.storage.memory.tables import ItemName, StoredItem, Tables


class MemoryItems:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def batch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        with self._tables.lock:
            for operation in operations:
                self._check(operation, now)
            results = [self._read(operation, now) for operation in operations]
            for operation in operations:
                self._change(operation, now)
            return results

    async def abatch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        return self.batch(operations, now)

    async def sweep(self, now: int, limit: int = 1000) -> int:
        with self._tables.lock:
            expired = [name for name, stored in self._tables.items.items() if stored.expired(now)][:limit]
            for name in expired:
                del self._tables.items[name]
            return len(expired)

    def _check(self, operation: ItemOperation, now: int) -> None:
        if isinstance(operation, PutItem):
            stored = self._tables.items.get(name := (operation.namespace, operation.key))
            if stored is not None and not stored.expired(now) and self._is_foreign(name, operation.access):
                raise Conflict(f"Item '{operation.key}' already exists")

    def _is_foreign(self, name: ItemName, access: AccessFilter) -> bool:
        stored = self._tables.items.get(name)
        return stored is not None and not access.matches(stored.item.value)

    def _read(self, operation: ItemOperation, now: int) -> ItemResult:
        match operation:
            case GetItem():
                return self._get(operation, now)
            case SearchItems():
                return self._search(operation, now)
            case ListNamespaces():
                allowed = (each for each in self._alive(now) if operation.access.matches(each.item.value))
                return select_namespaces((stored.item.namespace for stored in allowed), operation)
            case PutItem() | DropItem():
                return None

    def _change(self, operation: ItemOperation, now: int) -> None:
        match operation:
            case PutItem():
                self._put(operation, now)
            case DropItem():
                name = (operation.namespace, operation.key)
                if not self._is_foreign(name, operation.access):
                    self._tables.items.pop(name, None)
            case _:
                return

    def _put(self, put: PutItem, now: int) -> None:
        name = (put.namespace, put.key)
        # Removed first, so that the item comes last in the dictionary even if it existed before.
        before = self._tables.items.pop(name, None)
        first = Item(put.namespace, put.key, {}, now, now, put.owner)
        if before is not None and not before.expired(now):
            first = before.item
        item = replace(first, value=native(put.value), updated_at=now)
        self._tables.items[name] = StoredItem(item, put.ttl, _expiry(put.ttl, now), put.vectors)

    def _get(self, get: GetItem, now: int) -> Item | None:
        stored = self._tables.items.get((get.namespace, get.key))
        if stored is None or stored.expired(now) or not get.access.matches(stored.item.value):
            return None
        if get.refresh:
            self._refresh((get.namespace, get.key), now)
        return stored.shown()

    def _search(self, search: SearchItems, now: int) -> list[Item]:
        inside = [
            stored
            for stored in self._alive(now)
            if stored.item.namespace[: len(search.prefix)] == search.prefix
            and matches_filter(stored.item.value, search.filter)
            and search.access.matches(stored.item.value)
        ]
        inside.reverse()
        scored = rank_by_score(
            ((stored.item.namespace, stored.item.key), score)
            for stored in inside
            for score in _scores(stored, search.near)
        )
        page = scored[search.offset : search.offset + search.limit]
        found = [self._tables.items[name].shown(score) for name, score in page]
        if search.refresh:
            for name, _ in page:
                self._refresh(name, now)
        return found

    def _alive(self, now: int) -> Iterator[StoredItem]:
        return (stored for stored in self._tables.items.values() if not stored.expired(now))

    def _refresh(self, name: ItemName, now: int) -> None:
        stored = self._tables.items[name]
        self._tables.items[name] = replace(stored, expires_at=_expiry(stored.ttl, now))


def _scores(stored: StoredItem, near: bytes | None) -> Sequence[float | None]:
    return similarities(near, stored.vectors) or (None,) if near is not None else (None,)


def _expiry(ttl: int | None, now: int) -> int | None:
    return None if ttl is None else now + ttl
