from collections.abc import Callable
from dataclasses import replace
from typing import Any

from threadwire.core.ids import AssistantId
from threadwire.core.records import Assistant, AssistantQuery, AssistantVersion
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import name_contains
from threadwire.storage.memory.pages import holds, page
from threadwire.storage.memory.tables import Tables, stored_copy


class MemoryAssistants:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def create(self, assistant: Assistant, *, if_exists: str = "raise") -> Assistant:
        with self._tables.lock:
            if (existing := self._tables.assistants.get(assistant.assistant_id)) is None:
                return self._store(assistant, at=assistant.created_at)
            if if_exists != "do_nothing":
                raise Conflict(f"Assistant {assistant.assistant_id} already exists")
            return stored_copy(existing)

    async def get(self, assistant_id: AssistantId) -> Assistant | None:
        with self._tables.lock:
            assistant = self._tables.assistants.get(assistant_id)
            return None if assistant is None else stored_copy(assistant)

    async def update(self, assistant_id: AssistantId, change: Callable[[Assistant], Assistant], now: int) -> Assistant:
        with self._tables.lock:
            existing = self._require(assistant_id)
            changed = replace(
                change(stored_copy(existing)),
                assistant_id=assistant_id,
                created_at=existing.created_at,
                updated_at=now,
                version=max(self._tables.versions[assistant_id]) + 1,
                owner=existing.owner,
            )
            return self._store(changed, at=now)

    async def set_latest(self, assistant_id: AssistantId, version: int, now: int) -> Assistant:
        with self._tables.lock:
            existing = self._require(assistant_id)
            if (wanted := self._tables.versions[assistant_id].get(version)) is None:
                raise NotFound(f"Version {version} not found for assistant {assistant_id}")
            self._tables.assistants[assistant_id] = restored = stored_copy(wanted.restored(existing, now))
            return stored_copy(restored)

    async def versions(
        self, assistant_id: AssistantId, *, metadata: dict[str, Any], limit: int = 10, offset: int = 0
    ) -> list[AssistantVersion]:
        with self._tables.lock:
            newest_first = sorted(self._tables.versions.get(assistant_id, {}).items(), reverse=True)
            matching = [version for _, version in newest_first if holds(version.metadata, metadata)]
            return [stored_copy(version) for version in matching[offset : offset + limit]]

    async def delete(self, assistant_id: AssistantId) -> None:
        with self._tables.lock:
            self._require(assistant_id)
            del self._tables.assistants[assistant_id], self._tables.versions[assistant_id]
            self._tables.remove_crons(lambda cron: cron.assistant_id == assistant_id)

    async def search(self, query: AssistantQuery) -> list[Assistant]:
        with self._tables.lock:
            return [stored_copy(assistant) for assistant in page(self._matching(query), query)]

    async def count(self, query: AssistantQuery) -> int:
        with self._tables.lock:
            return len(self._matching(query))

    def _require(self, assistant_id: AssistantId) -> Assistant:
        if (existing := self._tables.assistants.get(assistant_id)) is None:
            raise NotFound(f"Assistant {assistant_id} not found")
        return existing

    def _store(self, assistant: Assistant, *, at: int) -> Assistant:
        version = AssistantVersion.of(assistant, at)
        self._tables.versions.setdefault(assistant.assistant_id, {})[assistant.version] = stored_copy(version)
        self._tables.assistants[assistant.assistant_id] = stored_copy(assistant)
        return stored_copy(assistant)

    def _matching(self, query: AssistantQuery) -> list[Assistant]:
        return [row for row in self._tables.assistants.values() if _matches(row, query)]


def _matches(assistant: Assistant, query: AssistantQuery) -> bool:
    return (
        query.graph_id in (None, assistant.graph_id)
        and (query.name is None or name_contains(assistant.name, query.name))
        and holds(assistant.metadata, query.metadata)
    )
