from collections.abc import Iterator, Sequence
from dataclasses import replace

from threadwire.core.items import (
    DropItem,
    GetItem,
    Item,
    ItemOperation,
    ItemResult,
    ListNamespaces,
    PutItem,
    SearchItems,
    listed,
    ranked,
    satisfies,
)
from threadwire.core.json import native
from threadwire.core.vectors import nearness
from threadwire.storage.memory.tables import ItemName, KeptItem, Tables


class MemoryItems:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def batch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        with self._tables.lock:
            results = [self._read(operation, now) for operation in operations]
            for operation in operations:
                self._change(operation, now)
            return results

    async def abatch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        return self.batch(operations, now)

    async def sweep(self, now: int, limit: int = 1000) -> int:
        with self._tables.lock:
            expired = [name for name, kept in self._tables.items.items() if kept.expired(now)][:limit]
            for name in expired:
                del self._tables.items[name]
            return len(expired)

    def _read(self, operation: ItemOperation, now: int) -> ItemResult:
        match operation:
            case GetItem():
                return self._get(operation, now)
            case SearchItems():
                return self._search(operation, now)
            case ListNamespaces():
                return listed((kept.item.namespace for kept in self._alive(now)), operation)
            case PutItem() | DropItem():
                return None

    def _change(self, operation: ItemOperation, now: int) -> None:
        match operation:
            case PutItem():
                self._put(operation, now)
            case DropItem():
                self._tables.items.pop((operation.namespace, operation.key), None)
            case _:
                return

    def _put(self, put: PutItem, now: int) -> None:
        name = (put.namespace, put.key)
        before = self._tables.items.pop(name, None)  # so that it comes last, whether it was there or not
        first = Item(put.namespace, put.key, {}, now, now, put.owner)
        if before is not None and not before.expired(now):
            first = before.item
        item = replace(first, value=native(put.value), updated_at=now)
        self._tables.items[name] = KeptItem(item, put.ttl, _expiry(put.ttl, now), put.vectors)

    def _get(self, get: GetItem, now: int) -> Item | None:
        kept = self._tables.items.get((get.namespace, get.key))
        if kept is None or kept.expired(now):
            return None
        if get.refresh:
            self._refresh((get.namespace, get.key), now)
        return kept.shown()

    def _search(self, search: SearchItems, now: int) -> list[Item]:
        inside = [
            kept
            for kept in self._alive(now)
            if kept.item.namespace[: len(search.prefix)] == search.prefix and satisfies(kept.item.value, search.filter)
        ]
        inside.reverse()
        scored = ranked(
            ((kept.item.namespace, kept.item.key), score) for kept in inside for score in _scores(kept, search.near)
        )
        page = scored[search.offset : search.offset + search.limit]
        found = [self._tables.items[name].shown(score) for name, score in page]
        if search.refresh:
            for name, _ in page:
                self._refresh(name, now)
        return found

    def _alive(self, now: int) -> Iterator[KeptItem]:
        return (kept for kept in self._tables.items.values() if not kept.expired(now))

    def _refresh(self, name: ItemName, now: int) -> None:
        kept = self._tables.items[name]
        self._tables.items[name] = replace(kept, expires_at=_expiry(kept.ttl, now))


def _scores(kept: KeptItem, near: bytes | None) -> Sequence[float | None]:
    return nearness(near, kept.vectors) or (None,) if near is not None else (None,)


def _expiry(ttl: int | None, now: int) -> int | None:
    return None if ttl is None else now + ttl
