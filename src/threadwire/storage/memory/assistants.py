from collections.abc import Callable
from dataclasses import replace
from typing import Any

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.ids import AssistantId
from threadwire.core.records import Assistant, AssistantQuery, AssistantVersion
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import name_contains
from threadwire.storage.memory.pages import holds, page
from threadwire.storage.memory.tables import Tables, stored_copy


class MemoryAssistants:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def create(
        self, assistant: Assistant, *, if_exists: str = "raise", access: AccessFilter = EVERYTHING
    ) -> Assistant:
        with self._tables.lock:
            if (existing := self._tables.assistants.get(assistant.assistant_id)) is None:
                return self._store(assistant, at=assistant.created_at)
            if if_exists != "do_nothing" or not access.matches(existing.metadata):
                raise Conflict(f"Assistant {assistant.assistant_id} already exists")
            return stored_copy(existing)

    async def get(self, assistant_id: AssistantId, *, access: AccessFilter = EVERYTHING) -> Assistant | None:
        with self._tables.lock:
            assistant = self._find(assistant_id, access)
            return None if assistant is None else stored_copy(assistant)

    async def update(
        self,
        assistant_id: AssistantId,
        change: Callable[[Assistant], Assistant],
        now: int,
        *,
        access: AccessFilter = EVERYTHING,
    ) -> Assistant:
        with self._tables.lock:
            existing = self._require(assistant_id, access)
            changed = replace(
                change(stored_copy(existing)),
                assistant_id=assistant_id,
                created_at=existing.created_at,
                updated_at=now,
                version=max(self._tables.versions[assistant_id]) + 1,
                owner=existing.owner,
            )
            return self._store(changed, at=now)

    async def set_latest(
        self, assistant_id: AssistantId, version: int, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Assistant:
        with self._tables.lock:
            existing = self._require(assistant_id, access)
            if (wanted := self._tables.versions[assistant_id].get(version)) is None:
                raise NotFound(f"Version {version} not found for assistant {assistant_id}")
            self._tables.assistants[assistant_id] = restored = stored_copy(wanted.restored(existing, now))
            return stored_copy(restored)

    async def versions(
        self,
        assistant_id: AssistantId,
        *,
        metadata: dict[str, Any],
        limit: int = 10,
        offset: int = 0,
        access: AccessFilter = EVERYTHING,
    ) -> list[AssistantVersion]:
        with self._tables.lock:
            newest_first = sorted(self._tables.versions.get(assistant_id, {}).items(), reverse=True)
            allowed = [version for _, version in newest_first if access.matches(version.metadata)]
            matching = [version for version in allowed if holds(version.metadata, metadata)]
            return [stored_copy(version) for version in matching[offset : offset + limit]]

    async def delete(self, assistant_id: AssistantId, *, access: AccessFilter = EVERYTHING) -> None:
        with self._tables.lock:
            self._require(assistant_id, access)
            del self._tables.assistants[assistant_id], self._tables.versions[assistant_id]
            self._tables.remove_crons(lambda cron: cron.assistant_id == assistant_id)

    async def search(self, query: AssistantQuery, *, access: AccessFilter = EVERYTHING) -> list[Assistant]:
        with self._tables.lock:
            return [stored_copy(assistant) for assistant in page(self._matching(query, access), query)]

    async def count(self, query: AssistantQuery, *, access: AccessFilter = EVERYTHING) -> int:
        with self._tables.lock:
            return len(self._matching(query, access))

    def _find(self, assistant_id: AssistantId, access: AccessFilter) -> Assistant | None:
        existing = self._tables.assistants.get(assistant_id)
        return existing if existing is not None and access.matches(existing.metadata) else None

    def _require(self, assistant_id: AssistantId, access: AccessFilter) -> Assistant:
        if (existing := self._find(assistant_id, access)) is None:
            raise NotFound(f"Assistant {assistant_id} not found")
        return existing

    def _store(self, assistant: Assistant, *, at: int) -> Assistant:
        version = AssistantVersion.of(assistant, at)
        self._tables.versions.setdefault(assistant.assistant_id, {})[assistant.version] = stored_copy(version)
        self._tables.assistants[assistant.assistant_id] = stored_copy(assistant)
        return stored_copy(assistant)

    def _matching(self, query: AssistantQuery, access: AccessFilter) -> list[Assistant]:
        allowed = [row for row in self._tables.assistants.values() if access.matches(row.metadata)]
        return [row for row in allowed if _matches(row, query)]


def _matches(assistant: Assistant, query: AssistantQuery) -> bool:
    return (
        query.graph_id in (None, assistant.graph_id)
        and (query.name is None or name_contains(assistant.name, query.name))
        and holds(assistant.metadata, query.metadata)
    )
