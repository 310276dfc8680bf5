"""What one can do with a thread: keep it, find it, watch it, look at its state, move its state."""

from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
from langgraph_sdk.runtime import AccessContext

from threadwire.core.configuration import PLACES
from threadwire.core.encoding import Encoder
from threadwire.core.entries import Draft, Json, Kind
from threadwire.core.ids import Seq, ThreadId, uuid7
from threadwire.core.records import CheckpointSizes, ExpiryStrategy, Put, Run, Thread, ThreadQuery, Ttl, WantedTtl
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.clock import Clock
from threadwire.engine.follow import Follower, Followers
from threadwire.engine.graph_reads import GraphReads
from threadwire.engine.seeing_through import see_through
from threadwire.engine.worker import Worker
from threadwire.errors import BadRequest, Conflict, NotFound
from threadwire.graphs import state
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.state import Graph, Move
from threadwire.graphs.store import StoreHome
from threadwire.storage.abc import Settling, Storage

T = TypeVar("T")

TRIES = 5
"""How often an update of a state is begun anew because the thread changed meanwhile."""

STOPS_WITHIN = 5.0
"""Seconds that a run is given to notice that it was stopped."""


class Threads:
    def __init__(
        self,
        storage: Storage,
        registry: GraphRegistry,
        reads: GraphReads,
        worker: Worker,
        checkpointing: Checkpointing,
        store: StoreHome,
        followers: Followers,
        clock: Clock,
        default_ttl: Ttl | None = None,
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._checkpointing = checkpointing
        self._store = store
        self._reads = reads
        self._worker = worker
        self._followers = followers
        self._clock = clock
        self._default_ttl = default_ttl
        self._moving: WeakValueDictionary[ThreadId, anyio.Lock] = WeakValueDictionary()

    async def create(
        self,
        thread_id: ThreadId | None,
        metadata: dict[str, Any],
        if_exists: str = "raise",
        ttl: WantedTtl = "usual",
        owner: str | None = None,
    ) -> Thread:
        thread = self.new(thread_id, metadata, self._default_ttl if ttl == "usual" else ttl, owner)
        try:
            return await self._storage.threads.create(thread, if_exists=if_exists)
        except Conflict:
            raise taken(thread.thread_id) from None

    def new(self, thread_id: ThreadId | None, metadata: dict[str, Any], ttl: Ttl | None, owner: str | None) -> Thread:
        """A thread as it would be made now."""
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

    async def update(self, thread_id: ThreadId, metadata: dict[str, Any], ttl: WantedTtl = "usual") -> Thread:
        try:
            return await self._storage.threads.update(thread_id, metadata=metadata, ttl=ttl, now=self._clock())
        except NotFound:
            raise _missing(thread_id) from None

    async def delete(self, thread_id: ThreadId) -> None:
        """Remove it with all it has. A run in flight is fenced first and stopped after."""
        self._checkpointing.require_deletion()
        await see_through(self._delete(thread_id))

    async def _delete(self, thread_id: ThreadId) -> None:
        running = await self._storage.runs.list(thread_id, status="running", limit=1)
        try:
            await self._storage.threads.delete(thread_id)
        except NotFound:
            raise _missing(thread_id) from None
        self._followers.forget_thread(thread_id)
        for run in running:
            self._worker.stop(run.run_id, "interrupt")
        if self._checkpointing.is_brought:
            await self._forget_checkpoints(thread_id, running)

    async def _forget_checkpoints(self, thread_id: ThreadId, stopped: list[Run]) -> None:
        """A saver that the project brings knows no fence, so what still runs is waited for, if it ends soon."""
        with anyio.move_on_after(STOPS_WITHIN):
            for run in stopped:
                await self._worker.gone(run.run_id)
        await self._checkpointing.forget_thread(thread_id)

    async def delete_all(self, query: ThreadQuery) -> None:
        """Remove every thread the query finds, page by page, whatever page it asks for."""
        query = replace(query, limit=100, offset=0, with_state=False)
        while found := await self._storage.threads.search(query):
            for thread in found:
                with suppress(NotFound):  # somebody else was faster
                    await self.delete(thread.thread_id)

    async def prune(self, thread_ids: Iterable[ThreadId], strategy: ExpiryStrategy) -> int:
        """Delete threads, or all but their newest checkpoints; how many of them. Those that are not there do not count,
        and neither do those with runs under way that were to keep their newest: the run may start from an older one."""
        if strategy == "keep_latest":
            self._checkpointing.require_pruning()
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
        await self._checkpointing.prune(thread_id)
        return True

    async def search(self, query: ThreadQuery) -> list[Thread]:
        return await self._storage.threads.search(query)

    async def page(self, query: ThreadQuery) -> tuple[list[Thread], int]:
        """What a search finds, and how many there are on all pages. A page that is not full is the last: nothing needs
        to be counted."""
        found = await self.search(query)
        if len(found) < query.limit and (found or query.offset == 0):
            return found, query.offset + len(found)
        return found, await self.count(query)

    async def count(self, query: ThreadQuery) -> int:
        return await self._storage.threads.count(query)

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        await self.get(thread_id)
        return await self._checkpointing.sizes(thread_id)

    async def follow(
        self, thread_id: ThreadId, options: Hashable, make_encoder: Callable[[], Encoder], after: Seq | None
    ) -> Follower:
        """Watch a thread over all its runs, from `after` on, or with None from now on."""
        await self.get(thread_id)
        return await self._followers.follow_thread(thread_id, options, make_encoder, after)

    # -- state ---------------------------------------------------------------------------------------------------

    async def state(
        self, thread_id: ThreadId, checkpoint: dict[str, Any] | None = None, *, subgraphs: bool = False
    ) -> Json:
        thread = await self.get(thread_id)
        if (graph_id := graph_of(thread.metadata)) is None:
            return state.EMPTY
        configurable = _configurable(thread_id, checkpoint)
        saver = self._checkpointing.saver()
        return await self.asking(
            graph_id, configurable, lambda graph: state.read(graph, saver, configurable, subgraphs=subgraphs)
        )

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
        saver = self._checkpointing.saver()
        return await self.asking(
            graph_id,
            configurable,
            lambda graph: state.history(graph, saver, configurable, limit=limit, before=bound, metadata=metadata),
        )

    async def update_state(
        self, thread_id: ThreadId, values: Any, as_node: str | None, checkpoint: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Move the thread's state outside a run; one move at a time. Refused while a run is under way."""
        async with self._moving.setdefault(thread_id, anyio.Lock()):
            for _ in range(TRIES):
                since = await self._storage.log.last(thread_id)  # before the thread is looked at
                thread = await self._free(thread_id)
                if (moved := await self._move(thread, since, values, as_node, checkpoint)) is not None:
                    return moved
        raise Conflict(f"Thread {thread_id} changed whenever its state was to be updated. Try again.")

    async def _free(self, thread_id: ThreadId) -> Thread:
        thread = await self.get(thread_id)
        if thread.status == "busy":
            active = [run.run_id for run in await self._storage.runs.list(thread_id, limit=100) if run.active]
            raise Conflict(f"Thread {thread_id} has in-flight runs: {active}")
        return thread

    async def _move(
        self, thread: Thread, since: Seq, values: Any, as_node: str | None, checkpoint: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """Where the state is then; None if something happened to the thread meanwhile."""
        thread_id, brought = thread.thread_id, self._checkpointing.is_brought
        if (graph_id := graph_of(thread.metadata)) is None:
            raise no_graph(thread_id)
        configurable = {**_configurable(thread_id, checkpoint), "graph_id": graph_id}  # for the checkpoint's metadata
        named, ns = configurable.get("checkpoint_id"), configurable["checkpoint_ns"]
        await self._checkpointing.require(thread_id, named, ns)
        await self._checkpointing.let_new_ones_follow(thread_id)
        saver, store = self._checkpointing.saver(), self._store.of(thread.owner)

        async def moving(graph: Graph) -> tuple[Move, Settling | None]:
            move = await state.update(graph, saver, store, configurable, values, as_node)
            # Here, because what is put is serialised, by code of the project's if it holds objects of the project's.
            return move, None if brought else self._settle(thread_id, move, since, move.puts)

        move, settling = await self.asking(graph_id, configurable, moving, "threads.update")
        if settling is not None:
            return move.configurable if await settling.wait() else None
        with self._worker.keeping_free(thread_id):  # what the project brings has no part in the transaction
            if not await self._settle(thread_id, move, since, ()).wait():
                return None
            await self._checkpointing.put(move.puts)
        return move.configurable

    def _settle(self, thread_id: ThreadId, move: Move, since: Seq, puts: Sequence[Put]) -> Settling:
        now = self._clock()
        reset = {"cause": "update", "checkpoint_id": move.configurable["checkpoint_id"], "values": move.settled.values}
        drafts = [Draft(Kind.STATE_RESET, reset, (), now)]
        return self._storage.threads.settle(thread_id, move.settled, drafts, puts, since=since, now=now)

    async def asking(
        self,
        graph_id: str,
        configurable: dict[str, Any],
        question: Callable[[Graph], Coroutine[Any, Any, T]],
        access: AccessContext = "threads.read",
        like: ThreadId | None = None,
    ) -> T:
        """Ask a graph about a thread; a factory is told what the last run of it, or of one that is `like` it, was."""
        config = await self._config_for(graph_id, like or configurable["thread_id"])
        config = {**config, "configurable": {**(config.get("configurable") or {}), **configurable}}
        return await self._reads.ask(graph_id, config, access, question)

    async def _config_for(self, graph_id: str, thread_id: ThreadId) -> dict[str, Any]:
        """A factory that makes its graph after the config must make the one that the thread's last run had."""
        if not self._registry.is_made(graph_id):
            return {}
        for run in await self._storage.runs.list(thread_id, limit=1):
            config = run.kwargs.get("config") or {}
            configurable = config.get("configurable") or {}
            configured = {key: value for key, value in configurable.items() if key not in PLACES}
            return {**config, "configurable": configured}
        return {}


def no_graph(thread_id: ThreadId) -> BadRequest:
    return BadRequest(
        f"Thread '{thread_id}' has no assigned graph ID. This usually occurs when no runs have been made on this"
        " particular thread. This operation requires a graph ID. Please ensure a run has been made for the thread or"
        " manually update the thread metadata (by setting the 'graph_id' field) before running this operation."
    )


def taken(thread_id: ThreadId) -> Conflict:
    return Conflict(f"Thread with ID {thread_id} already exists")


def _missing(thread_id: ThreadId) -> NotFound:
    return NotFound(f"Thread with ID {thread_id} not found")


def graph_of(metadata: dict[str, Any]) -> str | None:
    graph_id = metadata.get("graph_id")
    return graph_id if isinstance(graph_id, str) else None


def _configurable(thread_id: ThreadId, checkpoint: dict[str, Any] | None) -> dict[str, Any]:
    """Where to look: the thread's newest state, or the checkpoint named. The thread itself cannot be overridden."""
    return {"checkpoint_ns": "", **(checkpoint or {}), "thread_id": thread_id}
