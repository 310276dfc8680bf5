"""Snapshots of folds, beside the log. They may be large, so they are compressed and decompressed in other threads."""

import asyncio

from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import FoldSnapshot
from threadwire.storage.compression import compress, decompress
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.id_keys import key_of
from threadwire.storage.postgres.text_columns import escaped
from threadwire.storage.postgres.transaction import Transaction

_PUT = """INSERT INTO fold_snapshots AS f (thread, name, seq, packed, data) VALUES ($1, $2, $3, $4, $5)
          ON CONFLICT (thread, name) DO UPDATE SET seq = excluded.seq, packed = excluded.packed, data = excluded.data
          WHERE excluded.seq > f.seq"""


class PostgresFoldSnapshots:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, thread_id: ThreadId, name: str, snapshot: FoldSnapshot) -> None:
        packed = await asyncio.to_thread(compress, snapshot.data)
        data = snapshot.data if packed is None else packed

        async def put(transaction: Transaction) -> None:
            head = await transaction.lock(thread_id)
            if head.live and snapshot.seq <= head.last:
                row = (key_of(thread_id), escaped(name), snapshot.seq, int(packed is not None), data)
                await transaction.db.execute(_PUT, *row)

        await self._database.write(put)

    async def get(self, thread_id: ThreadId, name: str) -> FoldSnapshot | None:
        sql = "SELECT seq, packed, data FROM fold_snapshots WHERE thread = $1 AND name = $2"
        row = await self._database.read(lambda db: db.fetchrow(sql, key_of(thread_id), escaped(name)))
        if row is None:
            return None
        seq, packed, data = row
        return FoldSnapshot(Seq(seq), await asyncio.to_thread(decompress, data) if packed else data)
