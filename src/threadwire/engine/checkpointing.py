"""Where the checkpoints of threads are: in the storage, which sees to them in its own transactions, or in a saver that
the project brings, which must be told."""

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from threadwire.core.entries import START
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CheckpointSizes, Durability, Put, Run
from threadwire.errors import BadRequest, NotFound, StorageError
from threadwire.graphs.brought import BroughtSaver
from threadwire.storage.abc import Storage
from threadwire.storage.checkpoint_ids import let_new_ids_follow

if TYPE_CHECKING:
    from threadwire.graphs.state import Saver


class Checkpointing:
    def __init__(self, storage: Storage, brought: BroughtSaver | None = None) -> None:
        self._storage = storage
        self._brought = brought

    @property
    def is_brought(self) -> bool:
        return self._brought is not None

    def saver(self, durability: Durability = "async") -> "Saver":
        """What the project brings is handed out as it is: it knows neither fences nor the order of our queue."""
        return self._storage.checkpoints.saver(None, durability) if self._brought is None else self._brought.saver

    def saver_of(self, run: Run) -> "Saver":
        """For the attempt that holds the thread."""
        if self._brought is not None:
            return self._brought.saver
        durability: Durability = run.kwargs.get("durability") or "async"
        empty = run.thread_id if _begins_thread(run) else None
        return self._storage.checkpoints.saver(run.fence, durability, empty=empty)

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        """The newest root checkpoint, and who made it. What is made from now on comes behind it."""
        newest = await (self._brought or self._storage.checkpoints).newest(thread_id)
        if newest is not None:
            let_new_ids_follow(newest[0])
        return newest

    async def let_new_ones_follow(self, thread_id: ThreadId) -> None:
        """Have what is made from now on come behind what the thread has. Our own savers see to it when they read."""
        if self._brought is not None:
            await self.newest(thread_id)

    async def newest_before(self, run: Run) -> tuple[str, RunId | None] | None:
        """The newest checkpoint that an attempt finds."""
        return None if self._brought is None and _begins_thread(run) else await self.newest(run.thread_id)

    async def require(self, thread_id: ThreadId, checkpoint_id: str | None, ns: str = "") -> None:
        """Raise `NotFound` if the thread has no such checkpoint. LangGraph would begin with an empty state there."""
        keeper = self._brought or self._storage.checkpoints
        if checkpoint_id is not None and not await keeper.has(thread_id, checkpoint_id, ns):
            raise NotFound(f"Thread {thread_id} has no checkpoint {checkpoint_id[:60]!r}. It may have been pruned.")

    async def put(self, puts: Sequence[Put]) -> None:
        """Put what belongs to a change of which the storage knows. Raises `StorageError`."""
        if self._brought is not None:
            await _told(self._brought.put(puts))

    async def copy(self, thread_id: ThreadId, to: ThreadId) -> None:
        """Copy all checkpoints of a thread, as they are at one moment. Raises `StorageError`."""
        if self._brought is not None:
            await _told(self._brought.copy_thread(thread_id, to))
        else:
            await self._storage.checkpoints.saver().acopy_thread(thread_id, to)

    async def discard(self, thread_id: ThreadId) -> None:
        """Remove checkpoints for which there is no thread after all. Raises `StorageError`."""
        if self._brought is None:
            await self._storage.checkpoints.saver().adelete_thread(thread_id)
        elif self._brought.forgets_threads:
            await _told(self._brought.forget_thread(thread_id))

    async def prune(self, thread_id: ThreadId) -> None:
        """The thread has been pruned. Raises `StorageError`."""
        if self._brought is not None:
            await _told(self._brought.prune(thread_id))

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        if self._brought is not None:
            raise BadRequest("The project's checkpointer does not tell what its checkpoints take up.")
        return await self._storage.checkpoints.sizes(thread_id)

    async def forget_thread(self, thread_id: ThreadId) -> None:
        """The thread has been deleted. Raises `StorageError`."""
        if self._brought is not None:
            await _told(self._brought.forget_thread(thread_id))

    async def forget_run(self, run_id: RunId) -> None:
        """The run is being rolled back. Raises `StorageError`. To do it again is nothing."""
        if self._brought is not None:
            await _told(self._brought.forget_run(run_id))

    def require_deletion(self) -> None:
        """Raise `BadRequest` if a thread's checkpoints could not be removed with it."""
        if self._brought is not None and not self._brought.forgets_threads:
            raise BadRequest(_CANNOT.format("thread", "deleted", "adelete_thread"))

    def require_rollback(self) -> None:
        """Raise `BadRequest` if a run's checkpoints could not be taken back."""
        if self._brought is not None and not self._brought.forgets_runs:
            raise BadRequest(_CANNOT.format("run", "rolled back", "adelete_for_runs"))

    def require_copying(self) -> None:
        if self._brought is not None and not self._brought.copies_threads:
            raise BadRequest(_CANNOT_DO.format("copied", "acopy_thread"))

    def require_pruning(self) -> None:
        if self._brought is not None and not self._brought.prunes_threads:
            raise BadRequest(_CANNOT_DO.format("pruned", "aprune"))


def _begins_thread(run: Run) -> bool:
    """Whatever leaves a checkpoint in the storage leaves an entry too, so before a thread's first entry there is none
    to look for. The run that it tells of must have begun with it: one that is delayed is passed by others."""
    return run.queued_seq == START + 1 and run.attempt == 1 and run.started_at == run.created_at


_CANNOT_DO = "A thread cannot be {0} here: the project's checkpointer has no `{1}`."
_CANNOT = "A {0} cannot be {1} here: the project's checkpointer cannot delete its checkpoints, for it has no `{2}`."


async def _told(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception as error:  # the project's own code, and the database behind it
        raise StorageError(f"The project's checkpointer failed: {type(error).__name__}: {error}") from error
