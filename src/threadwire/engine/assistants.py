"""Assistants: each graph has one of its own, with an id derived from the graph's name."""

from threadwire.core.ids import AssistantId, assistant_id_of, parse_uuid
from threadwire.core.records import Assistant, AssistantQuery
from threadwire.engine.clock import Clock
from threadwire.errors import Invalid, NotFound
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage


class Assistants:
    def __init__(self, storage: Storage, registry: GraphRegistry, clock: Clock) -> None:
        self._storage = storage
        self._registry = registry
        self._clock = clock
        self._of_graphs: dict[str, Assistant] = {}

    async def ensure_graphs(self) -> None:
        """Make the assistant of every graph that has none yet, and know them all: nearly every run names one."""
        for graph_id in self._registry.ids():
            now = self._clock()
            self._of_graphs[graph_id] = await self._storage.assistants.ensure(
                Assistant(
                    assistant_id=assistant_id_of(graph_id),
                    graph_id=graph_id,
                    name=graph_id,
                    description=self._registry.description(graph_id),
                    created_at=now,
                    updated_at=now,
                    metadata={"created_by": "system"},
                )
            )

    async def get(self, assistant_id: AssistantId) -> Assistant:
        found = await self._storage.assistants.get(assistant_id)
        if found is None:
            raise NotFound("Not Found")
        return found

    async def resolve(self, name: str) -> Assistant:
        """An agent is an assistant: its id, or the name of its graph."""
        if (known_graph := self._of_graphs.get(name)) is not None:
            return known_graph
        if (assistant_id := parse_uuid(name)) is None:
            known = ", ".join(self._registry.ids())
            raise Invalid(
                f"Invalid assistant: '{name[:200]}'. Must be either:\n"
                f"- A valid assistant UUID, or\n- One of the registered graphs: {known}"
            )
        found = await self._storage.assistants.get(AssistantId(assistant_id))
        if found is None:
            raise NotFound("Thread or assistant not found.")
        return found

    async def search(self, query: AssistantQuery) -> list[Assistant]:
        return await self._storage.assistants.search(query)

    async def count(self, query: AssistantQuery) -> int:
        return await self._storage.assistants.count(query)
