"""The checkpoints of threads, in the storage or in a custom checkpointer. The storage maintains its own in the same
transactions as its other data; a custom checkpointer has to be called for each change."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CheckpointSizes, Durability, Put, Run
from threadwire.errors import BadRequest, NotFound, StorageError
from threadwire.graphs.custom_persistence import CustomSaver
from threadwire.graphs.error_messages import ErrorMessages, new_error_id
from threadwire.graphs.tracebacks import render_traceback
from threadwire.storage.abc import RunHandle, WorkerStorage
from threadwire.storage.checkpoint_ids import advance_id_clock

if TYPE_CHECKING:
    from threadwire.graphs.state import Saver

T = TypeVar("T")
logger = structlog.get_logger("threadwire.checkpoints")


class ThreadCheckpoints:
    def __init__(
        self, storage: WorkerStorage, custom: CustomSaver | None = None, messages: ErrorMessages | None = None
    ) -> None:
        self._storage = storage
        self._custom = custom
        self._messages = messages or ErrorMessages()

    @property
    def is_custom(self) -> bool:
        return self._custom is not None

    def saver(self, durability: Durability = "async") -> "Saver":
        """Return a checkpointer without a fence. A custom checkpointer is always returned unchanged: it supports
        neither fences nor the order of the write queue."""
        return self._storage.checkpoints.saver(durability) if self._custom is None else self._custom.saver

    def saver_of(self, handle: RunHandle) -> "Saver":
        """The checkpointer for an attempt."""
        if self._custom is not None:
            return self._custom.saver
        return handle.saver(handle.run.kwargs.get("durability") or "async")

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        """The newest root checkpoint and the run that created it. Checkpoints created from now on sort after it. Raises
        `StorageError`."""
        if self._custom is None:
            newest = await self._storage.checkpoints.newest(thread_id)
        else:
            newest = await self._reporting_errors(self._custom.newest(thread_id))
        if newest is not None:
            advance_id_clock(newest[0])
        return newest

    async def newest_metadata(self, thread_id: ThreadId) -> Mapping[str, Any]:
        """The metadata of the newest root checkpoint in a custom checkpointer. Raises `StorageError`."""
        return {} if self._custom is None else await self._reporting_errors(self._custom.newest_metadata(thread_id))

    async def advance_id_clock(self, thread_id: ThreadId) -> None:
        """Make checkpoints created from now on sort after those of the thread. The built-in checkpointer does so on
        every read."""
        if self._custom is not None:
            await self.newest(thread_id)

    async def newest_before(self, run: Run) -> tuple[str, RunId | None] | None:
        """The newest checkpoint when an attempt of the run starts."""
        return None if self._custom is None and run.is_first_on_thread else await self.newest(run.thread_id)

    async def require(self, thread_id: ThreadId, checkpoint_id: str | None, ns: str = "") -> None:
        """Raise `NotFound` if the thread has no such checkpoint. LangGraph would start with an empty state instead."""
        source = self._custom or self._storage.checkpoints
        if checkpoint_id is not None and not await source.has(thread_id, checkpoint_id, ns):
            raise NotFound(f"Thread {thread_id} has no checkpoint {checkpoint_id[:60]!r}. It may have been pruned.")

    async def put(self, puts: Sequence[Put]) -> None:
        """Write the checkpoints of a change that the storage has committed. Raises `StorageError`."""
        if self._custom is not None:
            await self._reporting_errors(self._custom.put(puts))

    async def copy(self, thread_id: ThreadId, to: ThreadId) -> None:
        """Copy a consistent snapshot of all checkpoints of a thread. Raises `StorageError`."""
        if self._custom is not None:
            await self._reporting_errors(self._custom.copy_thread(thread_id, to))
        else:
            await self._storage.checkpoints.saver().acopy_thread(thread_id, to)

    async def discard(self, thread_id: ThreadId) -> None:
        """Delete staged checkpoints that no thread took over. Raises `StorageError`."""
        if self._custom is None:
            await self._storage.checkpoints.saver().adelete_thread(thread_id)
        elif self._custom.can_delete_threads:
            await self._reporting_errors(self._custom.forget_thread(thread_id))

    async def prune(self, thread_id: ThreadId) -> None:
        """Prune the checkpoints of a thread that was pruned in the storage. Raises `StorageError`."""
        if self._custom is not None:
            await self._reporting_errors(self._custom.prune(thread_id))

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        if self._custom is not None:
            raise BadRequest("The project's checkpointer does not report the size of its checkpoints.")
        return await self._storage.checkpoints.sizes(thread_id)

    async def forget_thread(self, thread_id: ThreadId) -> None:
        """Delete the checkpoints of a thread that was deleted in the storage. Raises `StorageError`."""
        if self._custom is not None:
            await self._reporting_errors(self._custom.forget_thread(thread_id))

    async def forget_run(self, run_id: RunId) -> None:
        """Delete the checkpoints of a run that is rolled back. Idempotent. Raises `StorageError`."""
        if self._custom is not None:
            await self._reporting_errors(self._custom.forget_run(run_id))

    def require_deletion(self) -> None:
        """Raise `BadRequest` if a thread's checkpoints could not be deleted with it."""
        if self._custom is not None and not self._custom.can_delete_threads:
            raise BadRequest(_CANNOT_DELETE.format("Threads", "deleted", "adelete_thread"))

    def require_rollback(self) -> None:
        """Raise `BadRequest` if a run's checkpoints could not be rolled back."""
        if self._custom is not None and not self._custom.can_delete_runs:
            raise BadRequest(_CANNOT_DELETE.format("Runs", "rolled back", "adelete_for_runs"))

    def require_copying(self) -> None:
        if self._custom is not None and not self._custom.can_copy_threads:
            raise BadRequest(_MISSING_METHOD.format("copied", "acopy_thread"))

    def require_pruning(self) -> None:
        if self._custom is not None and not self._custom.can_prune_threads:
            raise BadRequest(_MISSING_METHOD.format("pruned", "aprune"))

    async def _reporting_errors(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except Exception as error:  # the project's own code, or its database
            error_id = new_error_id()
            logger.warning("checkpointer_failed", error_id=error_id, stack=render_traceback(error))
            described = "{error}: {message}".format(**self._messages.describe(error, error_id))
            raise StorageError(f"The project's checkpointer failed: {described}") from error


_MISSING_METHOD = "Threads cannot be {0}: the project's checkpointer has no `{1}`."
_CANNOT_DELETE = "{0} cannot be {1}: the project's checkpointer cannot delete checkpoints, because it has no `{2}`."
