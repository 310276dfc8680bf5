"""Assistants: graphs with a configuration. Each graph has a default assistant, whose id is derived from the graph's
name."""

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import uuid4

import structlog

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.configuration import sync_configuration, with_user
from threadwire.core.entries import Json
from threadwire.core.ids import AssistantId, assistant_id_of, parse_uuid
from threadwire.core.records import Assistant, AssistantQuery, AssistantVersion, ThreadQuery
from threadwire.engine.access import allowed, current_owner, current_user
from threadwire.engine.clock import Clock
from threadwire.engine.graph_access import GraphAccess
from threadwire.engine.graph_operations import (
    DescribeSchemas,
    DrawGraph,
    FindInputKeys,
    FindSubgraphs,
    GraphOperation,
)
from threadwire.engine.threads import Threads
from threadwire.errors import Conflict, GraphFailed, GraphUnavailable, Invalid, NotFound, StorageUnavailable
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.assistants")

UNTITLED = "Untitled"

_CONFIG_IGNORED = "The graph's assistant already exists, with another config; update the assistant to change it."
T = TypeVar("T")


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
        self,
        storage: Storage,
        registry: GraphRegistry,
        graph_access: GraphAccess,
        threads: Threads,
        clock: Clock,
        *,
        shares_storage: bool = False,
    ) -> None:
        """With `shares_storage`, other processes change assistants too."""
        self._storage = storage
        self._registry = registry
        self._graph_access = graph_access
        self._threads = threads
        self._clock = clock
        self._shares_storage = shares_storage
        self._defaults: dict[str, Assistant] = {}
        """The default assistants, cached because nearly every run names a graph. If other processes change assistants
        too, a cached one is used only while it is missing from the storage."""

    async def ensure_graphs(self) -> None:
        """Create the default assistants that do not exist yet, and cache all of them. While the storage cannot write, a
        missing one is only cached, so call this again later."""
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
            existing = await self._storage.assistants.get(assistant.assistant_id)
            if existing is not None and config and (existing.config, existing.context) != (config, context):
                logger.warning("graph_config_ignored", graph_id=graph_id, hint=_CONFIG_IGNORED)
            defaults[graph_id] = existing or await self._create_default(assistant)
        self._defaults = defaults

    async def _create_default(self, assistant: Assistant) -> Assistant:
        try:
            return await self._storage.assistants.create(assistant, if_exists="do_nothing")
        except StorageUnavailable:
            return assistant

    async def of_graph(self, graph_id: str) -> Assistant | None:
        """Return the default assistant of the graph; None if there is no such graph."""
        default = self._defaults.get(graph_id)
        if default is None or not self._shares_storage:
            return default
        return await self._storage.assistants.get(default.assistant_id) or default

    def id_of(self, name: str) -> str:
        """Return the id of the default assistant, if this is the name of a graph; otherwise the name itself, which
        should be an id."""
        return self._defaults[name].assistant_id if name in self._defaults else name

    async def resolve(self, name: str) -> Assistant:
        """Return the assistant with this id, or the default assistant of the graph with this name. Raises `Invalid` or
        `NotFound`."""
        if (known_graph := await self.of_graph(name)) is not None:
            return known_graph
        if (assistant_id := parse_uuid(name)) is None:
            known = ", ".join(self._registry.ids())
            raise Invalid(
                f"Invalid assistant: '{name[:200]}'. Must be either:\n"
                f"- A valid assistant UUID, or\n- One of the registered graphs: {known}"
            )
        found = await self._find(AssistantId(assistant_id))
        if found is None:
            raise NotFound("Thread or assistant not found.")
        return found

    async def _find(self, assistant_id: AssistantId) -> Assistant | None:
        """Every caller may run the default assistants, which have no owner."""
        access = EVERYTHING
        if not self.is_default(assistant_id):
            access = await allowed("assistants", "read", {"assistant_id": assistant_id})
        return await self._storage.assistants.get(assistant_id, access=access)

    # -- stored assistants --------------------------------------------------------------------------------------------

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
            owner=new.owner or current_owner(),
        )
        value: dict[str, Any] = {
            "assistant_id": assistant.assistant_id,
            "graph_id": assistant.graph_id,
            "config": new.config,
            "context": new.context,
            "metadata": dict(assistant.metadata),
            "name": assistant.name,
        }
        access = await allowed("assistants", "create", value)
        assistant = replace(assistant, metadata=value["metadata"])
        return await self._storage.assistants.create(assistant, if_exists=new.if_exists, access=access)

    async def get(self, assistant_id: AssistantId) -> Assistant:
        access = await allowed("assistants", "read", {"assistant_id": assistant_id})
        found = await self._storage.assistants.get(assistant_id, access=access)
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
        value: dict[str, Any] = {
            "assistant_id": assistant_id,
            "graph_id": change.graph_id,
            "config": change.config or {},
            "context": change.context,
            "metadata": dict(change.metadata),
            "name": change.name,
        }
        access = await allowed("assistants", "update", value)
        change = replace(change, metadata=value["metadata"])
        changed = await self._storage.assistants.update(assistant_id, change.apply, self._clock(), access=access)
        return self._cached(changed)

    async def set_latest(self, assistant_id: AssistantId, version: int) -> Assistant:
        access = await allowed("assistants", "update", {"assistant_id": assistant_id, "version": version})
        changed = await self._storage.assistants.set_latest(assistant_id, version, self._clock(), access=access)
        return self._cached(changed)

    async def versions(
        self, assistant_id: AssistantId, *, metadata: dict[str, Any], limit: int, offset: int
    ) -> list[AssistantVersion]:
        access = await allowed("assistants", "read", {"assistant_id": assistant_id})
        await self._require(assistant_id, access)
        return await self._storage.assistants.versions(
            assistant_id, metadata=metadata, limit=limit, offset=offset, access=access
        )

    async def delete(self, assistant_id: AssistantId, *, delete_threads: bool) -> None:
        """Delete an assistant. With `delete_threads`, delete its threads first. If the process stops in between, the
        request can be repeated."""
        if (default_of := self._default_of(assistant_id)) is not None:
            raise Conflict(f"Assistant {assistant_id} is the default of graph '{default_of}' and cannot be deleted")
        access = await allowed("assistants", "delete", {"assistant_id": assistant_id})
        if delete_threads:
            await self._require(assistant_id, access)
            await self._threads.delete_all(ThreadQuery(metadata={"assistant_id": assistant_id}))
        await self._storage.assistants.delete(assistant_id, access=access)

    def is_default(self, assistant_id: AssistantId) -> bool:
        """Whether it is the default assistant of a graph, which cannot be deleted."""
        return self._default_of(assistant_id) is not None

    async def search(self, query: AssistantQuery) -> list[Assistant]:
        query, access = await _authorize_search(query)
        return await self._storage.assistants.search(query, access=access)

    async def page(self, query: AssistantQuery) -> tuple[list[Assistant], int]:
        """Return one page of search results and the total count."""
        query, access = await _authorize_search(query)
        assistants = self._storage.assistants
        return await assistants.search(query, access=access), await assistants.count(query, access=access)

    async def count(self, query: AssistantQuery) -> int:
        query, access = await _authorize_search(replace(query, limit=0))
        return await self._storage.assistants.count(query, access=access)

    async def _require(self, assistant_id: AssistantId, access: AccessFilter) -> None:
        if await self._storage.assistants.get(assistant_id, access=access) is None:
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

    # -- their graphs -------------------------------------------------------------------------------------------------

    async def drawing(self, assistant: Assistant, xray: int | bool) -> Json:
        return await self._call(assistant, DrawGraph(xray))

    async def schemas(self, assistant: Assistant) -> Json:
        parts = await self._call(assistant, DescribeSchemas(assistant.graph_id))
        return {"graph_id": assistant.graph_id, **parts}

    async def subgraphs(self, assistant: Assistant, namespace: str | None, *, recurse: bool) -> Json:
        return await self._call(assistant, FindSubgraphs(namespace, recurse))

    async def input_keys(self, assistant: Assistant) -> frozenset[str] | None:
        """The keys of the graph's input; None if the graph does not declare them or cannot be called."""
        try:
            return await self._call(assistant, FindInputKeys())
        except (GraphFailed, GraphUnavailable):
            return None

    async def _call(self, assistant: Assistant, operation: GraphOperation[T]) -> T:
        # Factories read `configurable` without checking that it exists.
        configurable = with_user(assistant.config.get("configurable") or {}, current_user.get())
        config = {**assistant.config, "configurable": configurable}
        return await self._graph_access.call(assistant.graph_id, config, "assistants.read", operation)


async def _authorize_search(query: AssistantQuery) -> tuple[AssistantQuery, AccessFilter]:
    value: dict[str, Any] = {
        "graph_id": query.graph_id,
        "metadata": dict(query.metadata),
        "limit": query.limit,
        "offset": query.offset,
    }
    access = await allowed("assistants", "search", value)
    return replace(query, metadata=value["metadata"]), access
