"""Assistants: graphs with a configuration. Each graph has one of its own, with an id derived from the graph's name."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

from threadwire.core.configuration import in_step
from threadwire.core.entries import Json
from threadwire.core.ids import AssistantId, assistant_id_of, parse_uuid
from threadwire.core.records import Assistant, AssistantQuery, AssistantVersion, ThreadQuery
from threadwire.engine.clock import Clock
from threadwire.engine.graph_reads import GraphReads
from threadwire.engine.threads import Threads
from threadwire.errors import Conflict, GraphFailed, GraphUnavailable, Invalid, NotFound
from threadwire.graphs import description
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage

UNTITLED = "Untitled"


@dataclass(frozen=True, slots=True)
class NewAssistant:
    """What a client asks for when it makes an assistant."""

    graph_id: str
    assistant_id: AssistantId | None = None
    config: dict[str, Any] = field(default_factory=dict)
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    if_exists: str = "raise"
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class AssistantChange:
    """What a client wants to be otherwise; None stays. Metadata is merged key by key, the rest is replaced."""

    graph_id: str | None = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None

    def apply(self, kept: Assistant) -> Assistant:
        config = kept.config if self.config is None else self.config
        if self.config is None and self.context is not None:  # what the old one was configured with gives way
            config = {key: value for key, value in config.items() if key != "configurable"}
        config, context = in_step(config, self.context, kept.context)
        return replace(
            kept,
            graph_id=kept.graph_id if self.graph_id is None else self.graph_id,
            config=config,
            context=context,
            metadata=kept.metadata | self.metadata,
            name=kept.name if self.name is None else self.name or UNTITLED,
            description=kept.description if self.description is None else self.description,
        )


class Assistants:
    def __init__(
        self, storage: Storage, registry: GraphRegistry, reads: GraphReads, threads: Threads, clock: Clock
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._reads = reads
        self._threads = threads
        self._clock = clock
        # Nearly every run names a graph. Nobody else writes to our storage, so what we know of these stays true.
        self._of_graphs: dict[str, Assistant] = {}

    async def ensure_graphs(self) -> None:
        """Make the assistant of every graph that has none yet, and know them all."""
        of_graphs: dict[str, Assistant] = {}
        for graph_id in self._registry.ids():
            now = self._clock()
            assistant = Assistant(
                assistant_id=assistant_id_of(graph_id),
                graph_id=graph_id,
                name=graph_id,
                description=self._registry.description(graph_id),
                created_at=now,
                updated_at=now,
                metadata={"created_by": "system"},
            )
            of_graphs[graph_id] = await self._storage.assistants.create(assistant, if_exists="do_nothing")
        self._of_graphs = of_graphs

    def of_graph(self, graph_id: str) -> Assistant | None:
        return self._of_graphs.get(graph_id)

    async def resolve(self, name: str) -> Assistant:
        """An agent is an assistant: its id, or the name of its graph."""
        if (known_graph := self.of_graph(name)) is not None:
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

    # -- keeping them ------------------------------------------------------------------------------------------------

    async def create(self, new: NewAssistant) -> Assistant:
        self._check_graph(new.graph_id)
        config, context = in_step(new.config, new.context)
        now = self._clock()
        assistant = Assistant(
            assistant_id=new.assistant_id or AssistantId(str(uuid4())),
            graph_id=new.graph_id,
            name=new.name or UNTITLED,
            created_at=now,
            updated_at=now,
            description=new.description,
            config=config,
            context=context,
            metadata=new.metadata,
            owner=new.owner,
        )
        return await self._storage.assistants.create(assistant, if_exists=new.if_exists)

    async def get(self, assistant_id: AssistantId) -> Assistant:
        found = await self._storage.assistants.get(assistant_id)
        if found is None:
            raise NotFound("Not Found")
        return found

    async def update(self, assistant_id: AssistantId, change: AssistantChange) -> Assistant:
        """Make a new version of it, which every run that is accepted from now on uses."""
        if change.graph_id is not None:
            self._check_graph(change.graph_id)
            if (own := self._own_graph(assistant_id)) not in (None, change.graph_id):
                raise Conflict(f"Assistant {assistant_id} is the one of graph '{own}', and stays with it")
        changed = await self._storage.assistants.update(assistant_id, change.apply, self._clock())
        return self._remembered(changed)

    async def set_latest(self, assistant_id: AssistantId, version: int) -> Assistant:
        return self._remembered(await self._storage.assistants.set_latest(assistant_id, version, self._clock()))

    async def versions(
        self, assistant_id: AssistantId, *, metadata: dict[str, Any], limit: int, offset: int
    ) -> list[AssistantVersion]:
        await self._require(assistant_id)
        return await self._storage.assistants.versions(assistant_id, metadata=metadata, limit=limit, offset=offset)

    async def delete(self, assistant_id: AssistantId, *, delete_threads: bool) -> None:
        """Remove it, after its threads if they are to go too: should that be cut short, it can be asked for again."""
        if (own := self._own_graph(assistant_id)) is not None:
            raise Conflict(f"Assistant {assistant_id} is the one of graph '{own}', and runs by that name need it")
        if delete_threads:
            await self._require(assistant_id)
            await self._threads.delete_all(ThreadQuery(metadata={"assistant_id": assistant_id}))
        await self._storage.assistants.delete(assistant_id)

    async def search(self, query: AssistantQuery) -> list[Assistant]:
        return await self._storage.assistants.search(query)

    async def count(self, query: AssistantQuery) -> int:
        return await self._storage.assistants.count(query)

    async def _require(self, assistant_id: AssistantId) -> None:
        if await self._storage.assistants.get(assistant_id) is None:
            raise NotFound(f"Assistant {assistant_id} not found")

    def _check_graph(self, graph_id: str) -> None:
        known = self._registry.ids()
        if graph_id not in known:
            raise NotFound(f"Graph '{graph_id[:200]}' not found. Expected one of: {sorted(known)}")

    def _own_graph(self, assistant_id: AssistantId) -> str | None:
        """The graph whose own assistant this is."""
        return next((graph_id for graph_id, own in self._of_graphs.items() if own.assistant_id == assistant_id), None)

    def _remembered(self, assistant: Assistant) -> Assistant:
        if (own := self._own_graph(assistant.assistant_id)) is not None:
            self._of_graphs[own] = assistant
        return assistant

    # -- what their graphs are like ----------------------------------------------------------------------------------

    async def drawing(self, assistant: Assistant, xray: int | bool) -> Json:
        return await self._ask(assistant, partial(description.drawing, xray=xray))

    async def schemas(self, assistant: Assistant) -> Json:
        parts = await self._ask(assistant, partial(description.schemas, name=assistant.graph_id))
        return {"graph_id": assistant.graph_id, **parts}

    async def subgraphs(self, assistant: Assistant, namespace: str | None, *, recurse: bool) -> Json:
        return await self._ask(assistant, partial(description.subgraphs, namespace=namespace, recurse=recurse))

    async def input_keys(self, assistant: Assistant) -> frozenset[str] | None:
        """The keys its graph takes as input; None if it does not say, or cannot be asked."""
        try:
            keys: frozenset[str] | None = await self._ask(assistant, description.input_keys)
        except (GraphFailed, GraphUnavailable):
            return None
        return keys

    async def _ask(self, assistant: Assistant, question: Any) -> Any:
        config = {"configurable": {}, **assistant.config}  # factories look into it without asking whether it is there
        return await self._reads.ask(assistant.graph_id, config, "assistants.read", question)
