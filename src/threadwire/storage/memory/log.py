from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice

from threadwire.core.entries import Draft, Entry
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import COMMITTED, Commit, LogCounters
from threadwire.storage.abc import Wakeup
from threadwire.storage.memory.tables import Tables, read_back


class MemoryLog:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def append(self, thread_id: ThreadId, drafts: Sequence[Draft]) -> Commit:
        with self._tables.lock:
            self._tables.thread(thread_id)
            self._tables.write(thread_id, drafts)
            return COMMITTED

    async def read(
        self, thread_id: ThreadId, after: Seq, *, limit: int = 1000, run_id: RunId | None = None
    ) -> list[Entry]:
        with self._tables.lock:
            later = islice(self._tables.logs.get(thread_id, ()), after, None)
            wanted = (entry for entry in later if run_id is None or entry.run_id == run_id)
            return read_back(islice(wanted, limit))

    async def last(self, thread_id: ThreadId) -> Seq:
        with self._tables.lock:
            return Seq(len(self._tables.logs.get(thread_id, ())))

    def watch(self, thread_id: ThreadId) -> AbstractContextManager[Wakeup]:
        return self._tables.watchers.watching(thread_id)

    def counters(self) -> LogCounters:
        return LogCounters(entries=self._tables.entries, commits=self._tables.writes)
