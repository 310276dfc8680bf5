"""Snapshots of folds, beside the log. They may be large, so they are compressed and decompressed in other threads."""

import asyncio

import apsw

from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import FoldSnapshot
from threadwire.storage.compression import compress, decompress
from threadwire.storage.sqlite.id_keys import key_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.writer import Writer

_PUT = """INSERT INTO fold_snapshots (thread, name, seq, packed, data) VALUES (?, ?, ?, ?, ?)
          ON CONFLICT DO UPDATE SET seq = excluded.seq, packed = excluded.packed, data = excluded.data
          WHERE excluded.seq > seq"""


class SqliteFoldSnapshots:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, thread_id: ThreadId, name: str, snapshot: FoldSnapshot) -> None:
        packed = await asyncio.to_thread(compress, snapshot.data)
        row = (int(packed is not None), snapshot.data if packed is None else packed)

        def put(transaction: Transaction) -> None:
            head = transaction.head(thread_id)
            if head.exists and snapshot.seq <= head.last:
                transaction.db.execute(_PUT, (key_of(thread_id), name, snapshot.seq, *row))

        await self._writer.do_on_writer_thread(put)

    async def get(self, thread_id: ThreadId, name: str) -> FoldSnapshot | None:
        sql = "SELECT seq, packed, data FROM fold_snapshots WHERE thread = ? AND name = ?"

        def get(db: apsw.Connection) -> FoldSnapshot | None:
            for seq, packed, data in fetch(db, sql, (key_of(thread_id), name)):
                return FoldSnapshot(Seq(seq), decompress(data) if packed else data)
            return None

        return await self._readers.run_in_thread(get)
