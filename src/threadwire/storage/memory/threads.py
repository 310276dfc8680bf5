from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from threadwire.core.entries import Draft
from threadwire.core.ids import ThreadId
from threadwire.core.records import Settled, Thread, ThreadQuery
from threadwire.errors import Conflict
from threadwire.storage.abc import Commit
from threadwire.storage.memory.pages import holds, page
from threadwire.storage.memory.tables import COMMITTED, Tables


class MemoryThreads:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def create(self, thread: Thread, *, if_exists: str = "raise") -> Thread:
        with self._tables.lock:
            if thread.thread_id not in self._tables.threads:
                self._tables.keep_thread(thread)
            elif if_exists != "do_nothing":
                raise Conflict(f"Thread {thread.thread_id} already exists")
            return self._tables.shown(self._tables.thread(thread.thread_id))

    async def get(self, thread_id: ThreadId) -> Thread | None:
        with self._tables.lock:
            thread = self._tables.threads.get(thread_id)
            return None if thread is None else self._tables.shown(thread)

    async def update(self, thread_id: ThreadId, *, metadata: dict[str, Any], now: int) -> Thread:
        with self._tables.lock:
            thread = self._tables.thread(thread_id)
            self._tables.keep_thread(replace(thread, metadata=thread.metadata | metadata, updated_at=now))
            return self._tables.shown(self._tables.thread(thread_id))

    async def delete(self, thread_id: ThreadId) -> None:
        with self._tables.lock:
            self._tables.remove_thread(self._tables.thread(thread_id).thread_id)

    async def search(self, query: ThreadQuery) -> list[Thread]:
        with self._tables.lock:
            return page(self._matching(query), query)

    async def count(self, query: ThreadQuery) -> int:
        with self._tables.lock:
            return len(self._matching(query))

    def settle(self, thread_id: ThreadId, settled: Settled, drafts: Sequence[Draft], now: int) -> Commit:
        with self._tables.lock:
            self._tables.settle(thread_id, settled, now)
            self._tables.write(thread_id, drafts)
            return COMMITTED

    async def discarded(
        self, *, before: int, but_not: frozenset[ThreadId] = frozenset(), limit: int = 100
    ) -> list[ThreadId]:
        with self._tables.lock:
            oldest = sorted(self._tables.discarded.items(), key=lambda pair: pair[1])
            return [each for each, at in oldest if at < before and each not in but_not][:limit]

    async def sweep(self, thread_ids: Sequence[ThreadId]) -> None:
        with self._tables.lock:
            for thread_id in thread_ids:
                known = self._tables.discarded.pop(thread_id, None) is not None
                if known and thread_id not in self._tables.threads:
                    self._tables.remove_thread(thread_id)

    def _matching(self, query: ThreadQuery) -> list[Thread]:
        shown = map(self._tables.shown, self._tables.threads.values())
        return [thread for thread in shown if _matches(thread, query)]


def _matches(thread: Thread, query: ThreadQuery) -> bool:
    return (
        (not query.ids or thread.thread_id in query.ids)
        and query.status in (None, thread.status)
        and holds(thread.metadata, query.metadata)
        and holds(thread.values, query.values)
    )
