"""Operations on a graph outside a run: reading and changing states, describing the graph.

An operation is a plain value, so that it can be sent to a worker process, which has the graph. It runs on a user loop,
because it runs the graph's code. The result is rendered there too, because rendering may also run that code.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.entries import Draft, Json, Kind
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.json import dumps, encoded, native
from threadwire.core.records import Put, StateSummary, Update
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.graphs import introspection, state
from threadwire.graphs.error_messages import ErrorMessages, redact_state
from threadwire.graphs.registry import AnyGraph
from threadwire.graphs.store import StoreProvider
from threadwire.storage.abc import StateCommit, WorkerStorage

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class GraphTools:
    """What operations need besides the graph. Every process that calls graphs has its own."""

    storage: WorkerStorage
    checkpoints: ThreadCheckpoints
    store: StoreProvider
    clock: Clock
    messages: ErrorMessages = field(default_factory=ErrorMessages)


class GraphOperation(Protocol[T_co]):
    async def run(self, graph: AnyGraph, tools: GraphTools) -> T_co: ...


@dataclass(frozen=True, slots=True)
class DrawGraph:
    xray: int | bool

    async def run(self, graph: AnyGraph, tools: GraphTools) -> Json:
        return native(await introspection.drawing(graph, xray=self.xray))


@dataclass(frozen=True, slots=True)
class DescribeSchemas:
    name: str

    async def run(self, graph: AnyGraph, tools: GraphTools) -> dict[str, Json]:
        described: dict[str, Json] = native(await introspection.schemas(graph, name=self.name))
        return described


@dataclass(frozen=True, slots=True)
class FindSubgraphs:
    namespace: str | None
    recurse: bool

    async def run(self, graph: AnyGraph, tools: GraphTools) -> Json:
        return native(await introspection.subgraphs(graph, namespace=self.namespace, recurse=self.recurse))


@dataclass(frozen=True, slots=True)
class FindInputKeys:
    async def run(self, graph: AnyGraph, tools: GraphTools) -> frozenset[str] | None:
        return await introspection.input_keys(graph)


@dataclass(frozen=True, slots=True)
class ReadState:
    """Returns the state as JSON."""

    configurable: dict[str, Any]
    subgraphs: bool

    async def run(self, graph: AnyGraph, tools: GraphTools) -> bytes:
        saver = tools.checkpoints.saver()
        read = await state.read(graph, saver, self.configurable, subgraphs=self.subgraphs, render_values=encoded)
        return dumps(redact_state(read, tools.messages))


@dataclass(frozen=True, slots=True)
class ReadHistory:
    configurable: dict[str, Any]
    limit: int
    before: dict[str, Any] | None
    metadata: dict[str, Any] | None

    async def run(self, graph: AnyGraph, tools: GraphTools) -> list[Json]:
        states = await state.history(
            graph,
            tools.checkpoints.saver(),
            self.configurable,
            limit=self.limit,
            before=self.before,
            metadata=self.metadata,
        )
        return [redact_state(each, tools.messages) for each in states]


@dataclass(frozen=True, slots=True)
class NewestState:
    """Returns the id of the newest checkpoint, and the resulting state of the thread."""

    thread_id: ThreadId

    async def run(self, graph: AnyGraph, tools: GraphTools) -> tuple[str | None, StateSummary]:
        return await state.newest(graph, tools.checkpoints.saver(), self.thread_id)


@dataclass(frozen=True, slots=True)
class BuildState:
    """Applies updates, step by step, to a thread without checkpoints. Returns the same as `NewestState`."""

    configurable: dict[str, Any]
    supersteps: Sequence[Sequence[Update]]
    owner: str | None

    async def run(self, graph: AnyGraph, tools: GraphTools) -> tuple[str | None, StateSummary]:
        saver, store = tools.checkpoints.saver(durability="sync"), tools.store.for_owner(self.owner)
        return await state.build(graph, saver, store, self.configurable, self.supersteps)


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of an update of a thread's state."""

    configurable: dict[str, Any]
    summary: StateSummary
    puts: list[Put]
    """What the caller has yet to store in a custom checkpointer."""
    applied: bool
    """Whether the storage has stored the update. It has not if the thread changed meanwhile."""


@dataclass(frozen=True, slots=True)
class UpdateState:
    """Computes the result of an update, and stores it, unless the checkpointer is custom: then the caller stores it."""

    thread_id: ThreadId
    configurable: dict[str, Any]
    values: Any
    as_node: str | None
    owner: str | None
    since: Seq
    access: AccessFilter = EVERYTHING

    async def run(self, graph: AnyGraph, tools: GraphTools) -> Moved:
        saver, store = tools.checkpoints.saver(), tools.store.for_owner(self.owner)
        move = await state.update(graph, saver, store, self.configurable, self.values, self.as_node)
        moved = Moved(move.configurable, move.summary, move.puts, applied=False)
        if tools.checkpoints.is_custom:
            return moved
        # Commit here, on the user loop, because serializing the checkpoints may run the project's code.
        applied = await self.commit(tools.storage, moved, tools.clock()).wait()
        return replace(moved, puts=[], applied=applied)

    def commit(self, storage: WorkerStorage, moved: Moved, now: int) -> StateCommit:
        reset = {
            "cause": "update",
            "checkpoint_id": moved.configurable["checkpoint_id"],
            "values": moved.summary.values,
            "interrupts": moved.summary.pending_interrupts,
        }
        base = self.configurable.get("checkpoint_id")
        if base is not None and not self.configurable.get("checkpoint_ns"):
            reset["base_checkpoint_id"] = base
        drafts = [Draft(Kind.STATE_RESET, reset, (), now)]
        return storage.threads.commit_state(
            self.thread_id, moved.summary, drafts, moved.puts, since=self.since, now=now, access=self.access
        )
