"""Changes that do not come through the API: the project's own code, in this process or another, calls a graph that
writes to the project's checkpointer.

Such a change has no run and no log entry. It is found by comparing the newest checkpoint with the newest one in the
log, and then recorded, so that every client sees it like any other change of the state.
"""

from collections.abc import Callable
from contextlib import suppress

import anyio
import structlog

from threadwire.core.entries import Draft, Kind
from threadwire.core.ids import ThreadId
from threadwire.core.records import StateSummary, Thread
from threadwire.engine.access import acting_as
from threadwire.engine.assistants import Assistants
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.engine.graph_operations import NewestState
from threadwire.engine.log_queries import LogQueries
from threadwire.engine.threads import Threads, graph_of
from threadwire.errors import Invalid, NotFound, ThreadwireError
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.engine")

POLL = 2.0
"""Seconds between two checks of the threads that clients follow."""


class ExternalChanges:
    def __init__(
        self,
        storage: Storage,
        checkpoints: ThreadCheckpoints,
        threads: Threads,
        assistants: Assistants,
        graph_ids: Callable[[], list[str]],
        clock: Clock,
    ) -> None:
        self._storage = storage
        self._log = LogQueries(storage)
        self._checkpoints = checkpoints
        self._threads = threads
        self._assistants = assistants
        self._graph_ids = graph_ids
        self._clock = clock

    async def record(self, thread_id: ThreadId) -> None:
        """Record a change that was made without the API. A no-op while a run is active, on a thread whose graph cannot
        be found, and with the built-in checkpointer, because only the API writes to it. Raises `StorageError`."""
        if not self._checkpoints.is_custom:
            return
        since = await self._storage.log.last(thread_id)  # read before the thread itself
        thread = await self._storage.threads.get(thread_id)
        if thread is None or thread.status == "busy":
            return
        newest = await self._checkpoints.newest(thread_id)
        if newest is None or newest[0] == await self._log.newest_checkpoint(thread_id, since):
            return
        if (graph_id := await self._graph_of(thread)) is None:
            return
        checkpoint_id, summary = await self._read(graph_id, thread)
        # Nothing is recorded if a run was accepted meanwhile: its first state includes the change.
        await self._storage.threads.commit_state(
            thread_id, summary, [self._entry(checkpoint_id, summary)], since=since, now=self._clock()
        ).wait()

    async def _graph_of(self, thread: Thread) -> str | None:
        """The graph of the thread. A thread that never had a run is assigned the graph that is named in its metadata
        or in that of its newest checkpoint, or else the only graph of the project."""
        if (graph_id := graph_of(thread.metadata)) is not None:
            return graph_id
        with acting_as(None, None):  # the caller only reads: the change is not theirs
            if (graph_id := await self._find_graph(thread)) is not None:
                await self._threads.update(thread.thread_id, {"graph_id": graph_id})
        return graph_id

    async def _find_graph(self, thread: Thread) -> str | None:
        written = await self._checkpoints.newest_metadata(thread.thread_id)
        for name in (thread.metadata.get("assistant_id"), written.get("graph_id"), written.get("assistant_id")):
            if isinstance(name, str):
                with suppress(Invalid, NotFound):
                    return (await self._assistants.resolve(name)).graph_id
        graph_ids = self._graph_ids()
        return graph_ids[0] if len(graph_ids) == 1 else None

    async def _read(self, graph_id: str, thread: Thread) -> tuple[str | None, StateSummary]:
        configurable = {"thread_id": thread.thread_id, "checkpoint_ns": ""}
        return await self._threads.call_graph(graph_id, configurable, NewestState(thread.thread_id))

    def _entry(self, checkpoint_id: str | None, summary: StateSummary) -> Draft:
        reset = {
            "cause": "external",
            "checkpoint_id": checkpoint_id,
            "values": summary.values,
            "interrupts": summary.pending_interrupts,
        }
        return Draft(Kind.STATE_RESET, reset, (), self._clock())


class ExternalChangeWatcher:
    """Checks the threads that clients follow, so that they see a change without reconnecting."""

    def __init__(self, changes: ExternalChanges, followed_threads: Callable[[], frozenset[ThreadId]]) -> None:
        self._changes = changes
        self._followed_threads = followed_threads

    async def work(self) -> None:
        while True:
            await anyio.sleep(POLL)
            for thread_id in self._followed_threads():
                await self._check(thread_id)

    async def _check(self, thread_id: ThreadId) -> None:
        try:
            await self._changes.record(thread_id)
        except ThreadwireError as error:
            logger.warning("external_change_read_failed", thread_id=thread_id, error=error.message)
