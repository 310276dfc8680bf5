from dataclasses import replace

from threadwire.core.json import native
from threadwire.core.records import Delivery
from threadwire.storage.memory.tables import Tables, stored_copy


class MemoryDeliveries:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def due(self, now: int, *, limit: int, exclude: frozenset[int] = frozenset()) -> list[Delivery]:
        with self._tables.lock:
            deliveries = self._tables.deliveries.values()
            due = [each for each in deliveries if each.due_at <= now and each.delivery_id not in exclude]
            earliest = sorted(due, key=lambda each: each.due_at)[:limit]
            return [replace(each, run=stored_copy(each.run), values=native(each.values)) for each in earliest]

    async def postpone(self, delivery_id: int, until: int) -> None:
        with self._tables.lock:
            if (delivery := self._tables.deliveries.get(delivery_id)) is not None:
                self._tables.deliveries[delivery_id] = replace(delivery, due_at=until, tries=delivery.tries + 1)

    async def remove(self, delivery_id: int) -> None:
        with self._tables.lock:
            self._tables.deliveries.pop(delivery_id, None)
