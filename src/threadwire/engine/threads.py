"""Threads: storing and searching them, and reading and updating their state."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
from langgraph_sdk.runtime import AccessContext

from threadwire.core.access_filter import AccessFilter
from threadwire.core.configuration import LOCATION_KEYS, with_user
from threadwire.core.encoder import Framing
from threadwire.core.entries import Draft, Json, Kind
from threadwire.core.ids import Seq, ThreadId, uuid7
from threadwire.core.json import dumps, loads
from threadwire.core.message_content import conversation_of
from threadwire.core.records import CheckpointSizes, ExpiryStrategy, RequestedTtl, Run, Thread, ThreadQuery, Ttl
from threadwire.engine.access import allowed, current_owner, current_user, require_changeable
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.engine.followers import Follower, Followers
from threadwire.engine.graph_access import GraphAccess
from threadwire.engine.graph_operations import GraphOperation, Moved, ReadHistory, ReadState, UpdateState
from threadwire.engine.shielding import run_to_completion
from threadwire.engine.state_cache import StateCache, StateKey, StateVersion
from threadwire.engine.thread_deletions import ThreadDeletions
from threadwire.engine.thread_folds import F
from threadwire.engine.workers import Workers
from threadwire.errors import BadRequest, Conflict, NotFound
from threadwire.graphs import state
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage

T = TypeVar("T")

UPDATE_ATTEMPTS = 5
"""How many times a state update is attempted if the thread keeps changing meanwhile."""

HISTORY_PAGE = 50
"""Checkpoints that are read at a time."""

STOP_TIMEOUT = 5.0
"""Seconds to wait for a cancelled run to stop."""


class Threads:
    def __init__(
        self,
        storage: Storage,
        registry: GraphRegistry,
        graph_access: GraphAccess,
        worker: Workers,
        checkpoints: ThreadCheckpoints,
        followers: Followers,
        clock: Clock,
        deletions: ThreadDeletions,
        default_ttl: Ttl | None = None,
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._checkpoints = checkpoints
        self._graph_access = graph_access
        self._worker = worker
        self._followers = followers
        self._clock = clock
        self._deletions = deletions
        self._default_ttl = default_ttl
        self._states = StateCache()
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
        thread, access = await self.authorize_new(thread, if_exists)
        try:
            return await self._storage.threads.create(
                thread, if_exists=if_exists, new_id=thread_id is None, access=access
            )
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
            owner=owner or current_owner(),
        )

    async def authorize_new(self, thread: Thread, if_exists: str) -> tuple[Thread, AccessFilter]:
        """Return the thread with the metadata that it may be created with, and the filter for an existing one."""
        value: dict[str, Any] = {
            "thread_id": thread.thread_id,
            "metadata": dict(thread.metadata),
            "if_exists": if_exists,
        }
        access = await allowed("threads", "create", value)
        return replace(thread, metadata=value["metadata"]), access

    async def get(self, thread_id: ThreadId, *, with_state: bool = True) -> Thread:
        """Return the thread, without its values and interrupts if they are not needed."""
        access = await allowed("threads", "read", {"thread_id": thread_id})
        return await self._get(thread_id, access, with_state=with_state)

    async def _get(self, thread_id: ThreadId, access: AccessFilter, *, with_state: bool = False) -> Thread:
        thread = await self._storage.threads.get(thread_id, with_state=with_state, access=access)
        if thread is None:
            raise _missing(thread_id)
        return thread

    async def _require_visible(self, thread_id: ThreadId, access: AccessFilter) -> None:
        """Raise `NotFound` if the thread is foreign or unknown. The transaction that follows checks this too, but
        starts differently in the two cases, so clients could tell them apart by the response time."""
        if access:
            await self._get(thread_id, access)

    async def update(self, thread_id: ThreadId, metadata: dict[str, Any], ttl: RequestedTtl = "usual") -> Thread:
        value: dict[str, Any] = {"thread_id": thread_id, "metadata": dict(metadata)}
        access = await allowed("threads", "update", value)
        await self._require_visible(thread_id, access)
        try:
            return await self._storage.threads.update(
                thread_id, metadata=value["metadata"], ttl=ttl, now=self._clock(), access=access
            )
        except NotFound:
            raise _missing(thread_id) from None

    async def delete(self, thread_id: ThreadId) -> None:
        """Delete a thread with all its data. An active run is fenced first, then stopped."""
        self._checkpoints.require_deletion()
        access = await allowed("threads", "delete", {"thread_id": thread_id})
        await self._require_visible(thread_id, access)
        await run_to_completion(self._delete(thread_id, access))

    async def _delete(self, thread_id: ThreadId, access: AccessFilter) -> None:
        running = await self._storage.runs.list(thread_id, status="running", limit=1)
        try:
            await self._storage.threads.delete(thread_id, access=access)
        except NotFound:
            raise _missing(thread_id) from None
        self._followers.forget_thread(thread_id)
        self._states.forget_thread(thread_id)
        for run in running:
            self._worker.stop(run.run_id, "interrupt")
        if self._checkpoints.is_custom:
            await self._delete_checkpoints(thread_id, running)
        await self._deletions.report(thread_id)

    async def _delete_checkpoints(self, thread_id: ThreadId, stopped: list[Run]) -> None:
        """A custom checkpointer has no fences, so wait for the stopped runs first, up to a timeout."""
        with anyio.move_on_after(STOP_TIMEOUT):
            for run in stopped:
                await self._worker.wait_until_stopped(run.run_id)
        await self._checkpoints.forget_thread(thread_id)

    async def was_deleted(self, thread_id: ThreadId) -> bool:
        """Whether the thread was deleted or expired, and was not created again."""
        access = await allowed("threads", "read", {"thread_id": thread_id})
        return await self._storage.threads.was_deleted(thread_id, access=access)

    async def delete_all(self, query: ThreadQuery) -> None:
        """Delete every thread that matches the query, page by page, ignoring its limit and offset."""
        self._checkpoints.require_deletion()
        access = await allowed("threads", "delete", {})
        query = replace(query, limit=100, offset=0, with_state=False)
        while found := await self._storage.threads.search(query, access=access):
            for thread in found:
                with suppress(NotFound):  # another request has deleted it
                    await run_to_completion(self._delete(thread.thread_id, access))

    async def prune(self, thread_ids: Iterable[ThreadId], strategy: ExpiryStrategy) -> int:
        """Delete threads, or all but their newest checkpoints. Return how many were deleted or pruned. With
        `keep_latest`, threads with active runs are skipped, because such a run may start from an older checkpoint."""
        if strategy == "keep_latest":
            self._checkpoints.require_pruning()
        wanted = list(dict.fromkeys(thread_ids))
        access = await allowed("threads", "delete", {"thread_ids": wanted})
        pruned = 0
        for thread_id in wanted:
            if strategy == "keep_latest":
                pruned += await self._keep_latest(thread_id, access)
            elif await self._storage.threads.get(thread_id, with_state=False, access=access) is not None:
                self._checkpoints.require_deletion()
                await run_to_completion(self._delete(thread_id, access))
                pruned += 1
        return pruned

    async def _keep_latest(self, thread_id: ThreadId, access: AccessFilter) -> bool:
        if not await self._storage.threads.prune(thread_id, self._clock(), access=access):
            return False
        await self._checkpoints.prune(thread_id)
        return True

    async def search(self, query: ThreadQuery) -> list[Thread]:
        query, access = await _authorize_search(query)
        return await self._storage.threads.search(query, access=access)

    async def page(self, query: ThreadQuery) -> tuple[list[Thread], int]:
        """Return one page of search results and the total count. A page that is not full is the last, so no count query
        is needed."""
        query, access = await _authorize_search(query)
        found = await self._storage.threads.search(query, access=access)
        if len(found) < query.limit and (found or query.offset == 0):
            return found, query.offset + len(found)
        return found, await self._storage.threads.count(query, access=access)

    async def count(self, query: ThreadQuery) -> int:
        query, access = await _authorize_search(replace(query, limit=0))
        return await self._storage.threads.count(query, access=access)

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        await self.get(thread_id, with_state=False)
        return await self._checkpoints.sizes(thread_id)

    async def fold(self, thread_id: ThreadId, name: str, make_fold: Callable[[], F], framing: Framing) -> F:
        """The fold of the thread's whole log as it is now. Other tasks feed it too, so read it before the next
        `await`."""
        await self.get(thread_id, with_state=False)
        return await self._followers.fold(thread_id, name, make_fold, framing)

    async def fold_summary(self, thread_id: ThreadId, name: str, framing: Framing) -> bytes | None:
        """The stored summary of a fold that is not loaded, if it is up to date."""
        await self.get(thread_id, with_state=False)
        return await self._followers.fold_summary(thread_id, name, framing)

    async def follow_fold(
        self, thread_id: ThreadId, name: str, make_fold: Callable[[], F], framing: Framing, after: Seq
    ) -> Follower:
        """Follow a thread from `after` with an encoder that is fed the whole thread, shared with `fold`."""
        await self.get(thread_id, with_state=False)
        return await self._followers.follow_fold(thread_id, name, make_fold, framing, after)

    async def note(self, thread_id: ThreadId, protocol: str, value: Json) -> None:
        """Append a `note` entry outside a run, durable on return. Raises `NotFound`."""
        await require_changeable(self._storage, thread_id)
        draft = Draft(Kind.NOTE, {"protocol": protocol, "value": value}, (), self._clock())
        await self._storage.log.append(thread_id, [draft]).wait()

    # -- state ---------------------------------------------------------------------------------------------------

    async def state(
        self, thread_id: ThreadId, checkpoint: dict[str, Any] | None = None, *, subgraphs: bool = False
    ) -> Json:
        return loads(await self.encoded_state(thread_id, checkpoint, subgraphs=subgraphs))

    async def encoded_state(
        self, thread_id: ThreadId, checkpoint: dict[str, Any] | None = None, *, subgraphs: bool = False
    ) -> bytes:
        """Return the state as JSON."""
        thread = await self.get(thread_id, with_state=False)
        if (graph_id := graph_of(thread.metadata)) is None:
            return dumps(state.EMPTY)
        key = StateKey(thread_id, (dumps(checkpoint), subgraphs))
        version = await self._state_version(thread, graph_id)
        if version is not None and (cached := self._states.get(key, version)) is not None:
            return cached
        configurable = _configurable(thread_id, checkpoint)
        read = await self.call_graph(graph_id, configurable, ReadState(configurable, subgraphs))
        # The read may include a change that was published in the meantime.
        if version is not None and version.last == await self._storage.log.last(thread_id):
            self._states.put(key, version, read)
        return read

    async def _state_version(self, thread: Thread, graph_id: str) -> StateVersion | None:
        """The version of the thread's state; None if the state may change without a new version. A factory may return
        another graph each time, and other code may write to a custom checkpointer."""
        if thread.status == "busy" or self._checkpoints.is_custom or self._registry.has_factory(graph_id):
            return None
        last = await self._storage.log.last(thread.thread_id)
        return StateVersion(thread.created_at, last, graph_id, self._registry.generation)

    async def history(
        self,
        thread_id: ThreadId,
        *,
        limit: int = 10,
        before: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        checkpoint: dict[str, Any] | None = None,
    ) -> list[Json]:
        thread = await self.get(thread_id, with_state=False)
        if (graph_id := graph_of(thread.metadata)) is None:
            return []
        configurable = _configurable(thread_id, checkpoint)
        bound = _configurable(thread_id, before) if before is not None else None
        return await self.call_graph(graph_id, configurable, ReadHistory(configurable, limit, bound, metadata))

    async def checkpoint_before(self, thread_id: ThreadId, message_id: str) -> str | None:
        """The newest checkpoint whose `messages` do not contain the message; None if there is none."""
        before: dict[str, Any] | None = None
        while True:
            page = await self.history(thread_id, limit=HISTORY_PAGE, before=before)
            for snapshot in page:
                if all(each.get("id") != message_id for each in conversation_of(snapshot["values"])):
                    checkpoint_id: str = snapshot["checkpoint_id"]
                    return checkpoint_id
            if len(page) < HISTORY_PAGE:
                return None
            before = {"checkpoint_id": page[-1]["checkpoint_id"]}

    async def update_state(
        self, thread_id: ThreadId, values: Any, as_node: str | None, checkpoint: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Update the thread's state outside a run, one update at a time. Raises `Conflict` if a run is active."""
        access = await allowed("threads", "update", {"thread_id": thread_id})
        await self.get(thread_id, with_state=False)
        async with self._update_locks.setdefault(thread_id, anyio.Lock()):
            for _ in range(UPDATE_ATTEMPTS):
                since = await self._storage.log.last(thread_id)  # read before the thread itself
                thread = await self._idle_thread(thread_id, access)
                if (moved := await self._move(thread, since, access, values, as_node, checkpoint)) is not None:
                    return moved
        raise Conflict(f"Thread {thread_id} kept changing while its state was being updated. Try again.")

    async def _idle_thread(self, thread_id: ThreadId, access: AccessFilter) -> Thread:
        thread = await self._get(thread_id, access)
        if thread.status == "busy":
            active = [run.run_id for run in await self._storage.runs.list(thread_id, limit=100) if run.active]
            raise Conflict(f"Thread {thread_id} has in-flight runs: {active}")
        return thread

    async def _move(
        self,
        thread: Thread,
        since: Seq,
        access: AccessFilter,
        values: Any,
        as_node: str | None,
        checkpoint: dict[str, Any] | None,
    ) -> dict[str, Any] | None:
        """Return the `configurable` of the new state; None if the thread changed meanwhile."""
        thread_id = thread.thread_id
        if (graph_id := graph_of(thread.metadata)) is None:
            raise graph_not_assigned(thread_id)
        configurable = {**_configurable(thread_id, checkpoint), "graph_id": graph_id}  # for the checkpoint's metadata
        checkpoint_id, ns = configurable.get("checkpoint_id"), configurable["checkpoint_ns"]
        await self._checkpoints.require(thread_id, checkpoint_id, ns)
        await self._checkpoints.advance_id_clock(thread_id)
        update = UpdateState(thread_id, configurable, values, as_node, thread.owner, since, access)
        moved = await self.call_graph(graph_id, configurable, update, "threads.update")
        applied = await self._apply(update, moved) if self._checkpoints.is_custom else moved.applied
        return moved.configurable if applied else None

    async def _apply(self, update: UpdateState, moved: Moved) -> bool:
        """Store an update whose checkpoints belong to a custom checkpointer, which is not part of the transaction."""
        async with self._worker.hold_thread(update.thread_id):
            applied = await update.commit(self._storage, replace(moved, puts=[]), self._clock()).wait()
            if applied:
                await self._checkpoints.put(moved.puts)
        return applied

    async def call_graph(
        self,
        graph_id: str,
        configurable: dict[str, Any],
        operation: GraphOperation[T],
        access: AccessContext = "threads.read",
        config_from: ThreadId | None = None,
    ) -> T:
        """Call a graph for a thread. A factory gets the config of the last run on that thread, or on `config_from`."""
        config = await self._config_for(graph_id, config_from or configurable["thread_id"])
        given = with_user(config.get("configurable") or {}, current_user.get())
        config = {**config, "configurable": {**given, **configurable}}
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


async def _authorize_search(query: ThreadQuery) -> tuple[ThreadQuery, AccessFilter]:
    value: dict[str, Any] = {
        "metadata": dict(query.metadata),
        "values": query.values,
        "status": query.status,
        "limit": query.limit,
        "offset": query.offset,
    }
    access = await allowed("threads", "search", value)
    return replace(query, metadata=value["metadata"]), access


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
