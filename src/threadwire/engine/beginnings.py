"""Threads that begin with a past: copies of others, and those made from updates.

The past is made first, under an id of its own that nobody knows; then the thread is created and takes it over, in one
transaction with the `state.reset` that tells everybody who reads its log where it begins. So such a thread is there
whole or not at all. (A saver that the project brings cannot be part of that transaction: there the past is made under
the thread's own id.)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio

from threadwire.core.entries import Draft, Kind
from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.records import Settled, Supersteps, Thread, Ttl, WantedTtl
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.clock import Clock
from threadwire.engine.threads import Threads, graph_of, no_graph, taken
from threadwire.errors import Conflict, GraphFailed, GraphUnavailable, NotFound
from threadwire.graphs import state
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.store import StoreHome
from threadwire.storage.abc import Storage


@dataclass(frozen=True, slots=True)
class _Past:
    """Checkpoints that wait for their thread, and the state they lead to."""

    cause: Literal["copy", "supersteps"]
    kept_under: ThreadId
    checkpoint_id: str | None
    settled: Settled


class Beginnings:
    def __init__(
        self,
        storage: Storage,
        registry: GraphRegistry,
        threads: Threads,
        checkpointing: Checkpointing,
        store: StoreHome,
        clock: Clock,
        default_ttl: Ttl | None = None,
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._threads = threads
        self._checkpointing = checkpointing
        self._store = store
        self._clock = clock
        self._default_ttl = default_ttl

    async def from_supersteps(
        self,
        supersteps: Supersteps,
        thread_id: ThreadId | None,
        metadata: dict[str, Any],
        if_exists: str = "raise",
        ttl: WantedTtl = "usual",
        owner: str | None = None,
    ) -> Thread:
        """A thread in the state these updates lead to. One that exists is refused, or returned as it is."""
        thread = self._threads.new(thread_id, metadata, self._default_ttl if ttl == "usual" else ttl, owner)
        if (existing := await self._storage.threads.get(thread.thread_id)) is not None:
            return _as_asked(existing, if_exists)
        graph_id, store = self._graph(thread), self._store.of(owner)
        saver = self._checkpointing.saver(durability="sync")
        async with self._past(thread) as kept_under:
            configurable = {"thread_id": kept_under, "checkpoint_ns": ""}
            checkpoint_id, settled = await self._threads.asking(
                graph_id,
                configurable,
                lambda graph: state.build(graph, saver, store, configurable, supersteps),
                "threads.update",
            )
            try:
                return await self._create(thread, _Past("supersteps", kept_under, checkpoint_id, settled))
            except Conflict:  # somebody else has made it meanwhile
                return _as_asked(await self._threads.get(thread.thread_id), if_exists)

    async def copy_of(self, thread_id: ThreadId) -> Thread:
        """A new thread with the same past and state. Of a busy thread, the newest state that is durable."""
        self._checkpointing.require_copying()
        source = await self._threads.get(thread_id)
        thread = self._threads.new(None, source.metadata, source.ttl, source.owner)
        async with self._past(thread) as kept_under:
            await self._checkpointing.copy(thread_id, kept_under)
            source = await self._threads.get(thread_id)  # if it was deleted before its checkpoints were copied
            thread = replace(thread, metadata=source.metadata, config=source.config, ttl=source.ttl)
            return await self._create(thread, await self._copied(source, kept_under))

    async def _copied(self, source: Thread, kept_under: ThreadId) -> _Past:
        newest = await self._checkpointing.newest(kept_under)
        if newest is None:
            return _Past("copy", kept_under, None, _as_it_was(source))
        return _Past("copy", kept_under, newest[0], await self._settled(source, kept_under))

    async def _settled(self, source: Thread, kept_under: ThreadId) -> Settled:
        """The state of the copied checkpoints; if the graph cannot be asked, what the source last settled on."""
        saver = self._checkpointing.saver()
        try:
            _, settled = await self._threads.asking(
                graph_of(source.metadata) or "",
                {"thread_id": kept_under, "checkpoint_ns": ""},
                lambda graph: state.newest(graph, saver, kept_under),
                like=source.thread_id,
            )
        except (GraphUnavailable, GraphFailed):
            return _as_it_was(source)
        return settled

    def _graph(self, thread: Thread) -> str:
        if (graph_id := graph_of(thread.metadata)) is None:
            raise no_graph(thread.thread_id)
        if graph_id not in (known := self._registry.ids()):
            raise NotFound(f"Graph '{graph_id[:200]}' not found. Expected one of: {sorted(known)}")
        return graph_id

    @asynccontextmanager
    async def _past(self, thread: Thread) -> AsyncIterator[ThreadId]:
        """An id to keep checkpoints under until the thread takes them over. What is left there is removed."""
        brought = self._checkpointing.is_brought
        kept_under = thread.thread_id if brought else ThreadId(uuid7())
        try:
            yield kept_under
        finally:
            with anyio.CancelScope(shield=True):
                if not brought or await self._storage.threads.get(kept_under) is None:
                    await self._checkpointing.discard(kept_under)

    async def _create(self, thread: Thread, past: _Past) -> Thread:
        settled = past.settled
        begun = replace(thread, status=settled.status, values=settled.values, interrupts=settled.interrupts)
        drafts: list[Draft] = []
        if past.checkpoint_id is not None:
            reset = {"cause": past.cause, "checkpoint_id": past.checkpoint_id, "values": settled.values}
            drafts.append(Draft(Kind.STATE_RESET, reset, (), thread.created_at))
        checkpoints_of = None if self._checkpointing.is_brought else past.kept_under
        return await self._storage.threads.create(begun, drafts=drafts, checkpoints_of=checkpoints_of)


def _as_it_was(source: Thread) -> Settled:
    return Settled("interrupted" if source.interrupts else "idle", source.values, source.interrupts)


def _as_asked(existing: Thread, if_exists: str) -> Thread:
    if if_exists == "do_nothing":
        return existing
    raise taken(existing.thread_id)
