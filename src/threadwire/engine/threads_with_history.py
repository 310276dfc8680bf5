"""Threads created with a history: copies of other threads, and threads built from supersteps.

The checkpoints are written first, under a staging id that no client knows. Then one transaction creates the thread,
moves the checkpoints to it and appends the `state.reset` entry that gives readers of the log the initial state. So such
a thread is created completely or not at all. (A custom checkpointer cannot take part in that transaction: there the
checkpoints are written under the thread's own id.)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio

from threadwire.core.access_filter import AccessFilter
from threadwire.core.entries import Draft, Kind
from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.records import RequestedTtl, StateSummary, Supersteps, Thread, Ttl
from threadwire.engine.access import allowed
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.engine.graph_operations import BuildState, NewestState
from threadwire.engine.threads import Threads, already_exists, graph_not_assigned, graph_of
from threadwire.errors import Conflict, GraphFailed, GraphUnavailable, NotFound
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage


@dataclass(frozen=True, slots=True)
class _History:
    """Staged checkpoints, and the state they lead to."""

    cause: Literal["copy", "supersteps"]
    staging_id: ThreadId
    checkpoint_id: str | None
    summary: StateSummary


class ThreadsWithHistory:
    def __init__(
        self,
        storage: Storage,
        registry: GraphRegistry,
        threads: Threads,
        checkpoints: ThreadCheckpoints,
        clock: Clock,
        default_ttl: Ttl | None = None,
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._threads = threads
        self._checkpoints = checkpoints
        self._clock = clock
        self._default_ttl = default_ttl

    async def from_supersteps(
        self,
        supersteps: Supersteps,
        thread_id: ThreadId | None,
        metadata: dict[str, Any],
        if_exists: str = "raise",
        ttl: RequestedTtl = "usual",
        owner: str | None = None,
    ) -> Thread:
        """Create a thread in the state these updates lead to. If the thread exists, raise `Conflict` or return it
        unchanged."""
        thread = self._threads.new(thread_id, metadata, self._default_ttl if ttl == "usual" else ttl, owner)
        thread, access = await self._threads.authorize_new(thread, if_exists)
        if await self._storage.threads.get(thread.thread_id, with_state=False) is not None:
            return await self._existing_or_conflict(thread.thread_id, access, if_exists)
        graph_id = self._graph(thread)
        async with self._staging(thread) as staging_id:
            configurable = {"thread_id": staging_id, "checkpoint_ns": ""}
            checkpoint_id, summary = await self._threads.call_graph(
                graph_id,
                configurable,
                BuildState(configurable, supersteps, owner),
                "threads.update",
            )
            try:
                return await self._create(thread, _History("supersteps", staging_id, checkpoint_id, summary))
            except Conflict:  # another request has created it meanwhile
                return await self._existing_or_conflict(thread.thread_id, access, if_exists)

    async def copy_of(self, thread_id: ThreadId) -> Thread:
        """Create a thread with the same history and state. A copy of a busy thread has its newest durable state."""
        self._checkpoints.require_copying()
        source = await self._threads.get(thread_id)
        thread = self._threads.new(None, source.metadata, source.ttl, source.owner)
        await allowed("threads", "create", {"thread_id": thread.thread_id})  # may reject; the metadata is the source's
        async with self._staging(thread) as staging_id:
            await self._checkpoints.copy(thread_id, staging_id)
            source = await self._threads.get(thread_id)  # it may have been deleted before its checkpoints were copied
            thread = replace(thread, metadata=source.metadata, config=source.config, ttl=source.ttl)
            return await self._create(thread, await self._copied_history(source, staging_id))

    async def _existing_or_conflict(self, thread_id: ThreadId, access: AccessFilter, if_exists: str) -> Thread:
        existing = await self._storage.threads.get(thread_id, access=access)
        if existing is None or if_exists != "do_nothing":
            raise already_exists(thread_id)
        return existing

    async def _copied_history(self, source: Thread, staging_id: ThreadId) -> _History:
        newest = await self._checkpoints.newest(staging_id)
        if newest is None:
            return _History("copy", staging_id, None, _stored_state(source))
        return _History("copy", staging_id, newest[0], await self._copied_state(source, staging_id))

    async def _copied_state(self, source: Thread, staging_id: ThreadId) -> StateSummary:
        """The state of the copied checkpoints, or the source's last stored state if its graph cannot be called."""
        try:
            _, summary = await self._threads.call_graph(
                graph_of(source.metadata) or "",
                {"thread_id": staging_id, "checkpoint_ns": ""},
                NewestState(staging_id),
                config_from=source.thread_id,
            )
        except (GraphUnavailable, GraphFailed):
            return _stored_state(source)
        return summary

    def _graph(self, thread: Thread) -> str:
        if (graph_id := graph_of(thread.metadata)) is None:
            raise graph_not_assigned(thread.thread_id)
        if graph_id not in (known := self._registry.ids()):
            raise NotFound(f"Graph '{graph_id[:200]}' not found. Expected one of: {sorted(known)}")
        return graph_id

    @asynccontextmanager
    async def _staging(self, thread: Thread) -> AsyncIterator[ThreadId]:
        """Yield an id to stage checkpoints under until the thread takes them over. Leftovers are deleted."""
        custom = self._checkpoints.is_custom
        staging_id = thread.thread_id if custom else ThreadId(uuid7())
        try:
            yield staging_id
        finally:
            with anyio.CancelScope(shield=True):
                if not custom or await self._storage.threads.get(staging_id) is None:
                    await self._checkpoints.discard(staging_id)

    async def _create(self, thread: Thread, history: _History) -> Thread:
        summary = history.summary
        created = replace(thread, status=summary.status, values=summary.values, interrupts=summary.interrupts)
        drafts: list[Draft] = []
        if history.checkpoint_id is not None:
            reset = {
                "cause": history.cause,
                "checkpoint_id": history.checkpoint_id,
                "values": summary.values,
                "interrupts": summary.pending_interrupts,
            }
            drafts.append(Draft(Kind.STATE_RESET, reset, (), thread.created_at))
        checkpoints_from = None if self._checkpoints.is_custom else history.staging_id
        return await self._storage.threads.create(created, drafts=drafts, checkpoints_from=checkpoints_from)


def _stored_state(source: Thread) -> StateSummary:
    return StateSummary("interrupted" if source.interrupts else "idle", source.values, source.interrupts)
