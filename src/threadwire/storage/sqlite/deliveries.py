"""The outbox: ended runs whose webhooks have not been delivered yet."""

from dataclasses import asdict

import apsw

from threadwire.core.ids import ThreadId
from threadwire.core.records import Delivery, Lease, Run
from threadwire.storage.local_leases import LocalLeases
from threadwire.storage.sqlite.id_keys import key_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, to_text
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.writer import Writer


class SqliteDeliveries:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers
        self._claims: LocalLeases[int] = LocalLeases()

    async def claim(self, limit: int, lease: Lease, *, now: int) -> list[Delivery]:
        claimed = set(self._claims.live())
        sql = """SELECT delivery, run, vals, due_at, tries FROM deliveries
                  WHERE due_at <= ? ORDER BY due_at, delivery LIMIT ?"""
        with self._readers.lend() as db:
            rows = fetch(db, sql, (now, limit + len(claimed)))
        wanted = [row for row in rows if row[0] not in claimed][:limit]
        for delivery, *_ in wanted:
            self._claims.grant(delivery, lease)
        return [
            Delivery(delivery, Run(**from_text(run)), from_text(values), due_at, tries)
            for delivery, run, values, due_at, tries in wanted
        ]

    async def postpone(self, delivery_id: int, until: int, lease: Lease) -> None:
        if not self._claims.is_held_by(lease.worker, delivery_id):
            return

        def postpone(transaction: Transaction) -> None:
            sql = "UPDATE deliveries SET due_at = ?, tries = tries + 1 WHERE delivery = ?"
            transaction.db.execute(sql, (until, delivery_id))

        await self._writer.do(postpone, essential=True)
        self._claims.end(delivery_id)

    async def release(self, delivery_id: int, lease: Lease) -> None:
        if self._claims.is_held_by(lease.worker, delivery_id):
            self._claims.end(delivery_id)

    async def remove(self, delivery_id: int) -> None:
        def remove(transaction: Transaction) -> None:
            transaction.db.execute("DELETE FROM deliveries WHERE delivery = ?", (delivery_id,))

        await self._writer.do(remove, essential=True)
        self._claims.end(delivery_id)


def enqueue_delivery(db: apsw.Connection, run: Run, now: int, *, values_of: ThreadId | None) -> None:
    """Enqueue the webhook delivery of an ended run, with the current values of the thread `values_of`, if any."""
    thread = None if values_of is None else key_of(values_of)
    db.execute(
        """INSERT INTO deliveries (run, vals, due_at, tries)
           VALUES (?, (SELECT vals FROM thread_state WHERE thread = ?), ?, 0)""",
        (to_text(asdict(run)), thread, now),
    )
