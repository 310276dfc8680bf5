from threadwire.core.ids import ThreadId
from threadwire.core.records import FoldSnapshot
from threadwire.storage.memory.tables import Tables


class MemoryFoldSnapshots:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def put(self, thread_id: ThreadId, name: str, snapshot: FoldSnapshot) -> None:
        with self._tables.lock:
            if thread_id not in self._tables.threads or snapshot.seq > self._tables.last(thread_id):
                return
            stored = self._tables.fold_snapshots.setdefault(thread_id, {})
            if name not in stored or stored[name].seq < snapshot.seq:
                stored[name] = snapshot

    async def get(self, thread_id: ThreadId, name: str) -> FoldSnapshot | None:
        with self._tables.lock:
            return self._tables.fold_snapshots.get(thread_id, {}).get(name)
