"""Threads: storing and searching them, and reading and updating their state."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
from langgraph_sdk.runtime import AccessContext

from threadwire.core.configuration import LOCATION_KEYS
from threadwire.core.encoding import Framing
from threadwire.core.entries import Draft, Json, Kind
from threadwire.core.ids import Seq, ThreadId, uuid7
from threadwire.core.records import CheckpointSizes, ExpiryStrategy, Put, RequestedTtl, Run, Thread, ThreadQuery, Ttl
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.engine.follow import Follower, Followers
from threadwire.engine.graph_access import GraphAccess
from threadwire.engine.shielding import run_to_completion
from threadwire.engine.thread_folds import F
from threadwire.engine.worker import Worker
from threadwire.errors import BadRequest, Conflict, NotFound
from threadwire.graphs import state
from threadwire.graphs.error_messages import redact_state
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.state import Graph, StagedUpdate
from threadwire.graphs.store import StoreProvider
from threadwire.storage.abc import StateCommit, Storage

T = TypeVar("T")

UPDATE_ATTEMPTS = 5
"""How often a state update is attempted if the thread changes meanwhile."""

STOP_TIMEOUT = 5.0
"""Seconds to wait for a cancelled run to stop."""


class Threads:
    def __init__(
        self,
        storage: Storage,
        registry: GraphRegistry,
        graph_access: GraphAccess,
        worker: Worker,
        checkpoints: ThreadCheckpoints,
        store: StoreProvider,
        followers: Followers,
        clock: Clock,
        default_ttl: Ttl | None = None,
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._checkpoints = checkpoints
        self._store = store
        self._graph_access = graph_access
        self._worker = worker
        self._followers = followers
        self._clock = clock
        self._default_ttl = default_ttl
        self._update_locks: WeakValueDictionary[ThreadId, anyio.Lock] = WeakValueDictionary()

    async def create(
        self,
        thread_id: ThreadId | None,
        metadata: dict[str, Any],
        if_exists: str = "raise",
        ttl: RequestedTtl = "usual",
        owner: str | None = None,
    ) -> Thread:
        thread = self.new(thread_id, metadata, self._default_ttl if ttl == "usual" else ttl, owner)
        try:
            return await self._storage.threads.create(thread, if_exists=if_exists)
        except Conflict:
            raise already_exists(thread.thread_id) from None

    def new(self, thread_id: ThreadId | None, metadata: dict[str, Any], ttl: Ttl | None, owner: str | None) -> Thread:
        """Return a new thread, not stored yet."""
        now = self._clock()
        return Thread(
            thread_id=thread_id or ThreadId(uuid7()),
            created_at=now,
            updated_at=now,
            state_updated_at=now,
            metadata=metadata,
            ttl=ttl,
            owner=owner,
        )

    async def get(self, thread_id: ThreadId) -> Thread:
        thread = await self._storage.threads.get(thread_id)
        if thread is None:
            raise _missing(thread_id)
        return thread

    async def update(self, thread_id: ThreadId, metadata: dict[str, Any], ttl: RequestedTtl = "usual") -> Thread:
        try:
            return await self._storage.threads.update(thread_id, metadata=metadata, ttl=ttl, now=self._clock())
        except NotFound:
            raise _missing(thread_id) from None

    async def delete(self, thread_id: ThreadId) -> None:
        """Delete a thread with all its data. An active run is fenced first, then stopped."""
        self._checkpoints.require_deletion()
        await run_to_completion(self._delete(thread_id))

    async def _delete(self, thread_id: ThreadId) -> None:
        running = await self._storage.runs.list(thread_id, status="running", limit=1)
        try:
            await self._storage.threads.delete(thread_id)
        except NotFound:
            raise _missing(thread_id) from None
        self._followers.forget_thread(thread_id)
        for run in running:
            self._worker.stop(run.run_id, "interrupt")
        if self._checkpoints.is_custom:
            await self._delete_checkpoints(thread_id, running)

    async def _delete_checkpoints(self, thread_id: ThreadId, stopped: list[Run]) -> None:
        """A custom checkpointer has no fences, so wait for the stopped runs first, up to a timeout."""
        with anyio.move_on_after(STOP_TIMEOUT):
            for run in stopped:
                await self._worker.wait_until_stopped(run.run_id)
        await self._checkpoints.forget_thread(thread_id)

    async def delete_all(self, query: ThreadQuery) -> None:
        """Delete every thread that matches the query, page by page, ignoring its limit and offset."""
        query = replace(query, limit=100, offset=0, with_state=False)
        while found := await self._storage.threads.search(query):
            for thread in found:
                with suppress(NotFound):  # another request has deleted it
                    await self.delete(thread.thread_id)

    async def prune(self, thread_ids: Iterable[ThreadId], strategy: ExpiryStrategy) -> int:
        """Delete threads, or all but their newest checkpoints. Return how many existed. With `keep_latest`,
        threads with active runs are skipped, because such a run may start from an older checkpoint."""
        if strategy == "keep_latest":
            self._checkpoints.require_pruning()
        pruned = 0
        for thread_id in dict.fromkeys(thread_ids):
            if strategy == "keep_latest":
                pruned += await self._keep_latest(thread_id)
            elif await self._storage.threads.get(thread_id) is not None:
                await self.delete(thread_id)
                pruned += 1
        return pruned

    async def _keep_latest(self, thread_id: ThreadId) -> bool:
        if not await self._storage.threads.prune(thread_id, self._clock()):
            return False
        await self._checkpoints.prune(thread_id)
        return True

    async def search(self, query: ThreadQuery) -> list[Thread]:
        return await self._storage.threads.search(query)

    async def page(self, query: ThreadQuery) -> tuple[list[Thread], int]:
        """Return one page of search results and the total count. A page that is not full is the last, so no count query
        is needed."""
        found = await self.search(query)
        if len(found) < query.limit and (found or query.offset == 0):
            return found, query.offset + len(found)
        return found, await self.count(query)

    async def count(self, query: ThreadQuery) -> int:
        return await self._storage.threads.count(query)

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        await self.get(thread_id)
        return await self._checkpoints.sizes(thread_id)

    async def fold(self, thread_id: ThreadId, name: str, make_fold: Callable[[], F], framing: Framing) -> F:
        """What the thread's whole log adds up to now, for an encoder that can be asked. Use it without awaiting."""
        await self.get(thread_id)
        return await self._followers.fold(thread_id, name, make_fold, framing)

    async def follow_fold(
        self, thread_id: ThreadId, name: str, make_fold: Callable[[], F], framing: Framing, after: Seq
    ) -> Follower:
        """Follow a thread from `after` with an encoder that is fed the whole thread, shared with `fold`."""
        await self.get(thread_id)
        return await self._followers.follow_fold(thread_id, name, make_fold, framing, after)

    # -- state ---------------------------------------------------------------------------------------------------

    async def state(
        self, thread_id: ThreadId, checkpoint: dict[str, Any] | None = None, *, subgraphs: bool = False
    ) -> Json:
        thread = await self.get(thread_id)
        if (graph_id := graph_of(thread.metadata)) is None:
            return state.EMPTY
        configurable = _configurable(thread_id, checkpoint)
        saver = self._checkpoints.saver()
        read = await self.call_graph(
            graph_id, configurable, lambda graph: state.read(graph, saver, configurable, subgraphs=subgraphs)
        )
        return redact_state(read, self._graph_access.messages)

    async def history(
        self,
        thread_id: ThreadId,
        *,
        limit: int = 10,
        before: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        checkpoint: dict[str, Any] | None = None,
    ) -> list[Json]:
        thread = await self.get(thread_id)
        if (graph_id := graph_of(thread.metadata)) is None:
            return []
        configurable = _configurable(thread_id, checkpoint)
        bound = _configurable(thread_id, before) if before is not None else None
        saver = self._checkpoints.saver()
        states = await self.call_graph(
            graph_id,
            configurable,
            lambda graph: state.history(graph, saver, configurable, limit=limit, before=bound, metadata=metadata),
        )
        return [redact_state(each, self._graph_access.messages) for each in states]

    async def update_state(
        self, thread_id: ThreadId, values: Any, as_node: str | None, checkpoint: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Update the thread's state outside a run, one update at a time. Raises `Conflict` if a run is active."""
        async with self._update_locks.setdefault(thread_id, anyio.Lock()):
            for _ in range(UPDATE_ATTEMPTS):
                since = await self._storage.log.last(thread_id)  # read before the thread itself
                thread = await self._idle_thread(thread_id)
                if (moved := await self._move(thread, since, values, as_node, checkpoint)) is not None:
                    return moved
        raise Conflict(f"Thread {thread_id} kept changing while its state was being updated. Try again.")

    async def _idle_thread(self, thread_id: ThreadId) -> Thread:
        thread = await self.get(thread_id)
        if thread.status == "busy":
            active = [run.run_id for run in await self._storage.runs.list(thread_id, limit=100) if run.active]
            raise Conflict(f"Thread {thread_id} has in-flight runs: {active}")
        return thread

    async def _move(
        self, thread: Thread, since: Seq, values: Any, as_node: str | None, checkpoint: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """Return the `configurable` of the new state; None if the thread changed meanwhile."""
        thread_id, custom = thread.thread_id, self._checkpoints.is_custom
        if (graph_id := graph_of(thread.metadata)) is None:
            raise graph_not_assigned(thread_id)
        configurable = {**_configurable(thread_id, checkpoint), "graph_id": graph_id}  # for the checkpoint's metadata
        checkpoint_id, ns = configurable.get("checkpoint_id"), configurable["checkpoint_ns"]
        await self._checkpoints.require(thread_id, checkpoint_id, ns)
        await self._checkpoints.advance_id_clock(thread_id)
        saver, store = self._checkpoints.saver(), self._store.for_owner(thread.owner)

        async def update(graph: Graph) -> tuple[StagedUpdate, StateCommit | None]:
            move = await state.update(graph, saver, store, configurable, values, as_node)
            # Called here, because serialising the checkpoints may run the project's code.
            return move, None if custom else self._commit_update(thread_id, move, since, move.puts)

        move, commit = await self.call_graph(graph_id, configurable, update, "threads.update")
        if commit is not None:
            return move.configurable if await commit.wait() else None
        with self._worker.hold_thread(thread_id):  # a custom checkpointer is not part of the transaction
            if not await self._commit_update(thread_id, move, since, ()).wait():
                return None
            await self._checkpoints.put(move.puts)
        return move.configurable

    def _commit_update(self, thread_id: ThreadId, move: StagedUpdate, since: Seq, puts: Sequence[Put]) -> StateCommit:
        now = self._clock()
        reset = {
            "cause": "update",
            "checkpoint_id": move.configurable["checkpoint_id"],
            "values": move.summary.values,
            "interrupts": move.summary.pending_interrupts,
        }
        drafts = [Draft(Kind.STATE_RESET, reset, (), now)]
        return self._storage.threads.commit_state(thread_id, move.summary, drafts, puts, since=since, now=now)

    async def call_graph(
        self,
        graph_id: str,
        configurable: dict[str, Any],
        operation: Callable[[Graph], Coroutine[Any, Any, T]],
        access: AccessContext = "threads.read",
        config_from: ThreadId | None = None,
    ) -> T:
        """Call a graph for a thread. A factory gets the config of the last run on that thread, or on `config_from`."""
        config = await self._config_for(graph_id, config_from or configurable["thread_id"])
        config = {**config, "configurable": {**(config.get("configurable") or {}), **configurable}}
        return await self._graph_access.call(graph_id, config, access, operation)

    async def _config_for(self, graph_id: str, thread_id: ThreadId) -> dict[str, Any]:
        """The config of the thread's last run, for a factory that builds its graph from the config: it must return the
        same graph again."""
        if not self._registry.has_factory(graph_id):
            return {}
        for run in await self._storage.runs.list(thread_id, limit=1):
            config = run.kwargs.get("config") or {}
            configurable = config.get("configurable") or {}
            configured = {key: value for key, value in configurable.items() if key not in LOCATION_KEYS}
            return {**config, "configurable": configured}
        return {}


def graph_not_assigned(thread_id: ThreadId) -> BadRequest:
    return BadRequest(
        f"Thread '{thread_id}' has no assigned graph ID. This usually occurs when no runs have been made on this"
        " particular thread. This operation requires a graph ID. Please ensure a run has been made for the thread or"
        " manually update the thread metadata (by setting the 'graph_id' field) before running this operation."
    )


def already_exists(thread_id: ThreadId) -> Conflict:
    return Conflict(f"Thread with ID {thread_id} already exists")


def _missing(thread_id: ThreadId) -> NotFound:
    return NotFound(f"Thread with ID {thread_id} not found")


def graph_of(metadata: dict[str, Any]) -> str | None:
    graph_id = metadata.get("graph_id")
    return graph_id if isinstance(graph_id, str) else None


def _configurable(thread_id: ThreadId, checkpoint: dict[str, Any] | None) -> dict[str, Any]:
    """Selects the thread's newest state, or the given checkpoint. `thread_id` cannot be overridden."""
    return {"checkpoint_ns": "", **(checkpoint or {}), "thread_id": thread_id}
