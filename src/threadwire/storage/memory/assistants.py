from threadwire.core.ids import AssistantId
from threadwire.core.records import Assistant, AssistantQuery
from threadwire.storage.memory.pages import holds, page
from threadwire.storage.memory.tables import Tables, as_kept


class MemoryAssistants:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def ensure(self, assistant: Assistant) -> Assistant:
        with self._tables.lock:
            return as_kept(self._tables.assistants.setdefault(assistant.assistant_id, as_kept(assistant)))

    async def get(self, assistant_id: AssistantId) -> Assistant | None:
        with self._tables.lock:
            assistant = self._tables.assistants.get(assistant_id)
            return None if assistant is None else as_kept(assistant)

    async def search(self, query: AssistantQuery) -> list[Assistant]:
        with self._tables.lock:
            return [as_kept(assistant) for assistant in page(self._matching(query), query)]

    async def count(self, query: AssistantQuery) -> int:
        with self._tables.lock:
            return len(self._matching(query))

    def _matching(self, query: AssistantQuery) -> list[Assistant]:
        return [row for row in self._tables.assistants.values() if _matches(row, query)]


def _matches(assistant: Assistant, query: AssistantQuery) -> bool:
    return (
        query.graph_id in (None, assistant.graph_id)
        and query.name in (None, assistant.name)
        and holds(assistant.metadata, query.metadata)
    )
