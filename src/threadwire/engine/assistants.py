"""Assistants: graphs with a configuration. Each graph has a default assistant, whose id is derived from the graph's
name."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

from threadwire.core.configuration import sync_configuration
from threadwire.core.entries import Json
from threadwire.core.ids import AssistantId, assistant_id_of, parse_uuid
from threadwire.core.records import Assistant, AssistantQuery, AssistantVersion, ThreadQuery
from threadwire.engine.clock import Clock
from threadwire.engine.graph_access import GraphAccess
from threadwire.engine.threads import Threads
from threadwire.errors import Conflict, GraphFailed, GraphUnavailable, Invalid, NotFound
from threadwire.graphs import introspection
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage

UNTITLED = "Untitled"


@dataclass(frozen=True, slots=True)
class NewAssistant:
    """A client's request to create an assistant."""

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
    """A client's changes to an assistant. None leaves a field unchanged. Metadata is merged by key; other fields are
    replaced."""

    graph_id: str | None = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None

    def apply(self, current: Assistant) -> Assistant:
        config = current.config if self.config is None else self.config
        if self.config is None and self.context is not None:  # the new context replaces the old `configurable`
            config = {key: value for key, value in config.items() if key != "configurable"}
        config, context = sync_configuration(config, self.context, current.context)
        return replace(
            current,
            graph_id=current.graph_id if self.graph_id is None else self.graph_id,
            config=config,
            context=context,
            metadata=current.metadata | self.metadata,
            name=current.name if self.name is None else self.name or UNTITLED,
            description=current.description if self.description is None else self.description,
        )


class Assistants:
    def __init__(
        self, storage: Storage, registry: GraphRegistry, graph_access: GraphAccess, threads: Threads, clock: Clock
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._graph_access = graph_access
        self._threads = threads
        self._clock = clock
        # A cache, because nearly every run names a graph. No other process writes to the storage, so it stays valid.
        self._defaults: dict[str, Assistant] = {}

    async def ensure_graphs(self) -> None:
        """Create the default assistants that do not exist yet, and cache all of them."""
        defaults: dict[str, Assistant] = {}
        for graph_id in self._registry.ids():
            now = self._clock()
            config, context = sync_configuration(self._registry.default_config(graph_id), None)
            assistant = Assistant(
                assistant_id=assistant_id_of(graph_id),
                graph_id=graph_id,
                name=graph_id,
                config=config,
                context=context,
                description=self._registry.description(graph_id),
                created_at=now,
                updated_at=now,
                metadata={"created_by": "system"},
            )
            defaults[graph_id] = await self._storage.assistants.create(assistant, if_exists="do_nothing")
        self._defaults = defaults

    def of_graph(self, graph_id: str) -> Assistant | None:
        return self._defaults.get(graph_id)

    async def resolve(self, name: str) -> Assistant:
        """Return the assistant with this id, or the default assistant of the graph with this name. Raises `Invalid` or
        `NotFound`."""
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

    # -- storing them ------------------------------------------------------------------------------------------------

    async def create(self, new: NewAssistant) -> Assistant:
        self._check_graph(new.graph_id)
        config, context = sync_configuration(new.config, new.context)
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
        """Create a new version, used by every run accepted from now on."""
        if change.graph_id is not None:
            self._check_graph(change.graph_id)
            if (default_of := self._default_of(assistant_id)) not in (None, change.graph_id):
                raise Conflict(
                    f"Assistant {assistant_id} is the default of graph '{default_of}' and cannot use another graph"
                )
        changed = await self._storage.assistants.update(assistant_id, change.apply, self._clock())
        return self._cached(changed)

    async def set_latest(self, assistant_id: AssistantId, version: int) -> Assistant:
        return self._cached(await self._storage.assistants.set_latest(assistant_id, version, self._clock()))

    async def versions(
        self, assistant_id: AssistantId, *, metadata: dict[str, Any], limit: int, offset: int
    ) -> list[AssistantVersion]:
        await self._require(assistant_id)
        return await self._storage.assistants.versions(assistant_id, metadata=metadata, limit=limit, offset=offset)

    async def delete(self, assistant_id: AssistantId, *, delete_threads: bool) -> None:
        """Delete an assistant, optionally after its threads. If the process stops in between, the request can be
        repeated."""
        if (default_of := self._default_of(assistant_id)) is not None:
            raise Conflict(f"Assistant {assistant_id} is the default of graph '{default_of}' and cannot be deleted")
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

    def _default_of(self, assistant_id: AssistantId) -> str | None:
        """The graph whose default assistant this is."""
        return next((graph_id for graph_id, each in self._defaults.items() if each.assistant_id == assistant_id), None)

    def _cached(self, assistant: Assistant) -> Assistant:
        if (graph_id := self._default_of(assistant.assistant_id)) is not None:
            self._defaults[graph_id] = assistant
        return assistant

    # -- inspecting their graphs -------------------------------------------------------------------------------------

    async def drawing(self, assistant: Assistant, xray: int | bool) -> Json:
        return await self._call(assistant, partial(introspection.drawing, xray=xray))

    async def schemas(self, assistant: Assistant) -> Json:
        parts = await self._call(assistant, partial(introspection.schemas, name=assistant.graph_id))
        return {"graph_id": assistant.graph_id, **parts}

    async def subgraphs(self, assistant: Assistant, namespace: str | None, *, recurse: bool) -> Json:
        return await self._call(assistant, partial(introspection.subgraphs, namespace=namespace, recurse=recurse))

    async def input_keys(self, assistant: Assistant) -> frozenset[str] | None:
        """The keys of the graph's input; None if the graph does not declare them or cannot be called."""
        try:
            keys: frozenset[str] | None = await self._call(assistant, introspection.input_keys)
        except (GraphFailed, GraphUnavailable):
            return None
        return keys

    async def _call(self, assistant: Assistant, operation: Any) -> Any:
        config = {"configurable": {}, **assistant.config}  # factories read `configurable` without checking
        return await self._graph_access.call(assistant.graph_id, config, "assistants.read", operation)
