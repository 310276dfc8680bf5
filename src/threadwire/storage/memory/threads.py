from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.entries import Draft, Kind
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import (
    ExpiryStrategy,
    Lease,
    Put,
    QueueHint,
    RequestedTtl,
    StateSummary,
    Thread,
    ThreadQuery,
)
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import REMEMBERED_DELETIONS
from threadwire.storage.memory.checkpoints import keep_latest, move_thread, newest_root, put_all
from threadwire.storage.memory.pages import holds, page
from threadwire.storage.memory.tables import Tables


@dataclass(frozen=True, slots=True)
class _StateCommit:
    thread_id: ThreadId
    exists: bool
    applied: bool

    async def wait(self) -> bool:
        if not self.exists:
            raise NotFound(f"Thread {self.thread_id} not found")
        return self.applied


class MemoryThreads:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def create(
        self,
        thread: Thread,
        *,
        if_exists: str = "raise",
        new_id: bool = False,
        drafts: Sequence[Draft] = (),
        checkpoints_from: ThreadId | None = None,
        access: AccessFilter = EVERYTHING,
    ) -> Thread:
        with self._tables.lock:
            if thread.thread_id not in self._tables.threads:
                self._tables.store_thread(thread)
                if checkpoints_from is not None:
                    move_thread(self._tables, checkpoints_from, thread.thread_id)
                if drafts:
                    self._tables.write(thread.thread_id, drafts)
            elif if_exists != "do_nothing" or self._tables.find_thread(thread.thread_id, access) is None:
                raise Conflict(f"Thread {thread.thread_id} already exists")
            return self._tables.shown(self._tables.thread(thread.thread_id))

    async def get(
        self, thread_id: ThreadId, *, with_state: bool = True, access: AccessFilter = EVERYTHING
    ) -> Thread | None:
        with self._tables.lock:
            thread = self._tables.find_thread(thread_id, access)
            shown = None if thread is None else self._tables.shown(thread)
        return shown if shown is None or with_state else _without_state(shown)

    async def update(
        self,
        thread_id: ThreadId,
        *,
        metadata: dict[str, Any],
        ttl: RequestedTtl = "usual",
        now: int,
        access: AccessFilter = EVERYTHING,
    ) -> Thread:
        with self._tables.lock:
            thread = self._tables.thread(thread_id, access)
            new_ttl = thread.ttl if ttl == "usual" else ttl
            merged = replace(thread, metadata=thread.metadata | metadata, ttl=new_ttl, updated_at=now)
            self._tables.store_thread(merged)
            return self._tables.shown(self._tables.thread(thread_id))

    async def delete(self, thread_id: ThreadId, *, access: AccessFilter = EVERYTHING) -> None:
        with self._tables.lock:
            self._delete(self._tables.thread(thread_id, access).thread_id)

    async def was_deleted(self, thread_id: ThreadId, *, access: AccessFilter = EVERYTHING) -> bool:
        with self._tables.lock:
            return not access and thread_id in self._tables.deleted and thread_id not in self._tables.threads

    def _delete(self, thread_id: ThreadId) -> None:
        self._tables.remove_thread(thread_id)
        self._tables.deleted.pop(thread_id, None)
        self._tables.deleted[thread_id] = None
        while len(self._tables.deleted) > REMEMBERED_DELETIONS:
            del self._tables.deleted[next(iter(self._tables.deleted))]

    async def prune(self, thread_id: ThreadId, now: int, *, access: AccessFilter = EVERYTHING) -> bool:
        with self._tables.lock:
            if self._tables.find_thread(thread_id, access) is None or self._tables.active(thread_id):
                return False
            self._prune(thread_id, now)
            return True

    async def due(self, now: int, limit: int) -> list[ThreadId]:
        with self._tables.lock:
            threads = [thread for thread in self._tables.threads.values() if self._is_due(thread, now)]
            threads.sort(key=lambda thread: thread.expires_at or 0)
            return [thread.thread_id for thread in threads[:limit]]

    async def expire(self, thread_id: ThreadId, now: int) -> ExpiryStrategy | None:
        with self._tables.lock:
            thread = self._tables.threads.get(thread_id)
            if thread is None or thread.ttl is None or not self._is_due(thread, now):
                return None
            if thread.ttl.strategy == "delete":
                self._delete(thread_id)
            else:
                self._prune(thread_id, now)
            return thread.ttl.strategy

    async def search(self, query: ThreadQuery, *, access: AccessFilter = EVERYTHING) -> list[Thread]:
        with self._tables.lock:
            found = page(self._matching(query, access), query)
        return found if query.with_state else [_without_state(thread) for thread in found]

    async def count(self, query: ThreadQuery, *, access: AccessFilter = EVERYTHING) -> int:
        with self._tables.lock:
            return len(self._matching(query, access))

    def commit_state(
        self,
        thread_id: ThreadId,
        summary: StateSummary,
        drafts: Sequence[Draft],
        puts: Sequence[Put] = (),
        *,
        since: Seq,
        now: int,
        access: AccessFilter = EVERYTHING,
    ) -> "_StateCommit":
        with self._tables.lock:
            exists = self._tables.find_thread(thread_id, access) is not None
            applied = exists and not self._tables.active(thread_id) and self._tables.last(thread_id) <= since
            if applied:
                put_all(self._tables, puts)
                self._tables.store_state(thread_id, summary, now)
                self._tables.write(thread_id, drafts)
        return _StateCommit(thread_id, exists, applied)

    async def hold(self, thread_id: ThreadId, lease: Lease) -> None:
        self._tables.holds.hold(thread_id, lease)

    async def end_hold(self, thread_id: ThreadId, worker: str) -> None:
        self._tables.holds.end(thread_id, worker)
        self._tables.queue_hints.hint(QueueHint.WORK)

    async def discarded(
        self, *, before: int, exclude: frozenset[ThreadId] = frozenset(), limit: int = 100
    ) -> list[ThreadId]:
        with self._tables.lock:
            oldest = sorted(self._tables.discarded.items(), key=lambda pair: pair[1])
            return [each for each, at in oldest if at < before and each not in exclude][:limit]

    async def sweep(self, thread_ids: Sequence[ThreadId]) -> None:
        with self._tables.lock:
            for thread_id in thread_ids:
                was_discarded = self._tables.discarded.pop(thread_id, None) is not None
                self._tables.discarded_metadata.pop(thread_id, None)
                if was_discarded and thread_id not in self._tables.threads:
                    self._tables.remove_thread(thread_id)

    def _matching(self, query: ThreadQuery, access: AccessFilter) -> list[Thread]:
        allowed = [thread for thread in self._tables.threads.values() if access.matches(thread.metadata)]
        shown = map(self._tables.shown, allowed)
        return [thread for thread in shown if _matches(thread, query)]

    def _prune(self, thread_id: ThreadId, now: int) -> None:
        self._tables.pruned_at[thread_id] = now
        if keep_latest(self._tables, thread_id):
            reset = {"cause": "prune", "checkpoint_id": newest_root(self._tables, thread_id)}
            self._tables.write(thread_id, [Draft(Kind.STATE_RESET, reset, at=now)])

    def _is_due(self, thread: Thread, now: int) -> bool:
        pruned_at = self._tables.pruned_at.get(thread.thread_id)
        return (
            thread.expires_at is not None
            and thread.expires_at <= now
            and (pruned_at is None or pruned_at < thread.updated_at)
            and not self._tables.active(thread.thread_id)
        )


def _without_state(thread: Thread) -> Thread:
    return replace(thread, values=None, interrupts={})


def _matches(thread: Thread, query: ThreadQuery) -> bool:
    return (
        (not query.ids or thread.thread_id in query.ids)
        and query.status in (None, thread.status)
        and holds(thread.metadata, query.metadata)
        and holds(thread.values, query.values)
    )
