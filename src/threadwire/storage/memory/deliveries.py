from dataclasses import replace

from threadwire.core.json import native
from threadwire.core.records import Delivery, Lease
from threadwire.storage.local_leases import LocalLeases
from threadwire.storage.memory.tables import Tables, stored_copy


class MemoryDeliveries:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._claims: LocalLeases[int] = LocalLeases()

    async def claim(self, limit: int, lease: Lease, *, now: int) -> list[Delivery]:
        with self._tables.lock:
            claimed = set(self._claims.live())
            deliveries = self._tables.deliveries.values()
            due = [each for each in deliveries if each.due_at <= now and each.delivery_id not in claimed]
            earliest = sorted(due, key=lambda each: each.due_at)[:limit]
            for delivery in earliest:
                self._claims.grant(delivery.delivery_id, lease)
            return [replace(each, run=stored_copy(each.run), values=native(each.values)) for each in earliest]

    async def postpone(self, delivery_id: int, until: int, lease: Lease) -> None:
        with self._tables.lock:
            delivery = self._tables.deliveries.get(delivery_id)
            if delivery is not None and self._claims.is_held_by(lease.worker, delivery_id):
                self._claims.end(delivery_id)
                self._tables.deliveries[delivery_id] = replace(delivery, due_at=until, tries=delivery.tries + 1)

    async def release(self, delivery_id: int, lease: Lease) -> None:
        with self._tables.lock:
            if self._claims.is_held_by(lease.worker, delivery_id):
                self._claims.end(delivery_id)

    async def remove(self, delivery_id: int) -> None:
        with self._tables.lock:
            self._claims.end(delivery_id)
            self._tables.deliveries.pop(delivery_id, None)
