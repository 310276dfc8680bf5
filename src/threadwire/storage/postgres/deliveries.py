"""The outbox: ended runs whose webhooks have not been delivered yet."""

from dataclasses import asdict
from typing import Any

from asyncpg import Connection, Record

from threadwire.core.ids import ThreadId
from threadwire.core.records import Delivery, Lease, Run
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.id_keys import key_of
from threadwire.storage.postgres.json_columns import from_text, to_text
from threadwire.storage.postgres.text_columns import escaped
from threadwire.storage.postgres.transaction import Transaction

# The lease is compared with the database's clock only. A delivery that another transaction is claiming is skipped.
_CLAIM = """
WITH wanted AS (
  SELECT delivery FROM deliveries WHERE due_at <= $1 AND (leased_until IS NULL OR leased_until <= clock_timestamp())
   ORDER BY due_at, delivery LIMIT $2 FOR UPDATE SKIP LOCKED)
UPDATE deliveries AS d SET worker = $3, leased_until = clock_timestamp() + $4 * interval '1 millisecond'
  FROM wanted WHERE d.delivery = wanted.delivery
RETURNING d.delivery, d.run, d.vals, d.due_at, d.tries
"""
_POSTPONE = """UPDATE deliveries SET due_at = $3, tries = tries + 1, worker = NULL, leased_until = NULL
 WHERE delivery = $1 AND worker = $2"""
_RELEASE = "UPDATE deliveries SET worker = NULL, leased_until = NULL WHERE delivery = $1 AND worker = $2"
_ENQUEUE = """INSERT INTO deliveries (run, vals, due_at)
VALUES ($1, (SELECT vals FROM thread_state WHERE thread = $2), $3)"""


class PostgresDeliveries:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, limit: int, lease: Lease, *, now: int) -> list[Delivery]:
        async def claim(transaction: Transaction) -> list[Delivery]:
            worker = escaped(lease.worker)
            rows = await transaction.db.fetch(_CLAIM, now, limit, worker, float(lease.milliseconds))
            return sorted(map(_delivery, rows), key=lambda delivery: (delivery.due_at, delivery.delivery_id))

        return await self._database.write(claim)

    async def postpone(self, delivery_id: int, until: int, lease: Lease) -> None:
        await self._execute(_POSTPONE, delivery_id, escaped(lease.worker), until)

    async def release(self, delivery_id: int, lease: Lease) -> None:
        await self._execute(_RELEASE, delivery_id, escaped(lease.worker))

    async def remove(self, delivery_id: int) -> None:
        await self._execute("DELETE FROM deliveries WHERE delivery = $1", delivery_id)

    async def _execute(self, sql: str, *bindings: Any) -> None:
        async def execute(transaction: Transaction) -> None:
            await transaction.db.execute(sql, *bindings)

        await self._database.write(execute)


async def enqueue_delivery(db: Connection, run: Run, now: int, *, values_of: ThreadId | None) -> None:
    """Enqueue the webhook delivery of an ended run, with the current values of the thread `values_of`, if any."""
    await db.execute(_ENQUEUE, to_text(asdict(run)), None if values_of is None else key_of(values_of), now)


def _delivery(row: Record) -> Delivery:
    delivery, run, values, due_at, tries = row
    return Delivery(delivery, Run(**from_text(run)), from_text(values), due_at, tries)
