from collections.abc import Callable
from dataclasses import replace

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.ids import CronId
from threadwire.core.records import Cron, CronQuery, Fired, Lease, NewRun
from threadwire.errors import NotFound, ThreadwireError
from threadwire.storage.memory.pages import holds, page
from threadwire.storage.memory.runs import MemoryRuns
from threadwire.storage.memory.tables import Tables, stored_copy


class MemoryCrons:
    def __init__(self, tables: Tables, runs: MemoryRuns) -> None:
        self._tables = tables
        self._runs = runs

    async def create(self, cron: Cron, *, thread_access: AccessFilter = EVERYTHING) -> None:
        with self._tables.lock:
            if cron.thread_id is not None:
                self._tables.thread(cron.thread_id, thread_access)
            self._store(cron)

    async def get(self, cron_id: CronId, *, access: AccessFilter = EVERYTHING) -> Cron | None:
        with self._tables.lock:
            cron = self._find(cron_id, access)
            return None if cron is None else stored_copy(cron)

    async def update(
        self, cron_id: CronId, change: Callable[[Cron], Cron], *, access: AccessFilter = EVERYTHING
    ) -> Cron:
        with self._tables.lock:
            return self._store(change(stored_copy(self._cron(cron_id, access))))

    async def delete(self, cron_id: CronId, *, access: AccessFilter = EVERYTHING) -> None:
        with self._tables.lock:
            del self._tables.crons[self._cron(cron_id, access).cron_id]

    async def search(
        self, query: CronQuery, *, access: AccessFilter = EVERYTHING, thread_access: AccessFilter = EVERYTHING
    ) -> list[Cron]:
        with self._tables.lock:
            return [stored_copy(cron) for cron in page(self._matching(query, access, thread_access), query)]

    async def count(
        self, query: CronQuery, *, access: AccessFilter = EVERYTHING, thread_access: AccessFilter = EVERYTHING
    ) -> int:
        with self._tables.lock:
            return len(self._matching(query, access, thread_access))

    async def due(self, now: int, *, limit: int) -> list[Cron]:
        with self._tables.lock:
            due = [(at, cron) for at, cron in self._scheduled() if at <= now]
            return [stored_copy(cron) for _, cron in sorted(due, key=lambda pair: pair[0])[:limit]]

    async def next_due(self) -> int | None:
        with self._tables.lock:
            return min((at for at, _ in self._scheduled()), default=None)

    async def fire(
        self,
        cron: Cron,
        new: NewRun | None,
        next_run_at: int | None,
        *,
        claim: Lease | None = None,
    ) -> Fired | None:
        with self._tables.lock:
            if self._tables.crons.get(cron.cron_id) != stored_copy(cron):
                return None
            self._store(replace(cron, last_run_at=cron.next_run_at, next_run_at=next_run_at))
            return Fired() if new is None else self._accept(new, claim)

    def _accept(self, new: NewRun, claim: Lease | None) -> Fired:
        try:
            return Fired(accepted=self._runs.accept_now(new, claim))
        except ThreadwireError as error:
            return Fired(rejected=error.message)

    def _find(self, cron_id: CronId, access: AccessFilter) -> Cron | None:
        cron = self._tables.crons.get(cron_id)
        return cron if cron is not None and access.matches(cron.metadata) else None

    def _cron(self, cron_id: CronId, access: AccessFilter) -> Cron:
        if (cron := self._find(cron_id, access)) is None:
            raise NotFound(f"Cron '{cron_id}' not found")
        return cron

    def _store(self, cron: Cron) -> Cron:
        self._tables.crons[cron.cron_id] = stored_copy(cron)
        return stored_copy(cron)

    def _scheduled(self) -> list[tuple[int, Cron]]:
        crons = self._tables.crons.values()
        return [(cron.next_run_at, cron) for cron in crons if cron.enabled and cron.next_run_at is not None]

    def _matching(self, query: CronQuery, access: AccessFilter, thread_access: AccessFilter) -> list[Cron]:
        allowed = [
            cron
            for cron in self._tables.crons.values()
            if access.matches(cron.metadata)
            and (cron.thread_id is None or self._tables.find_thread(cron.thread_id, thread_access) is not None)
        ]
        return [cron for cron in allowed if _matches(cron, query)]


def _matches(cron: Cron, query: CronQuery) -> bool:
    return (
        query.assistant_id in (None, cron.assistant_id)
        and query.thread_id in (None, cron.thread_id)
        and query.enabled in (None, cron.enabled)
        and holds(cron.metadata, query.metadata)
    )
