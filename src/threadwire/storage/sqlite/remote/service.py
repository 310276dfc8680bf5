"""Serves the storage to one worker process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from threadwire.core.access_filter import AccessFilter
from threadwire.core.entries import Draft, Entry, Fence
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import (
    CancelAction,
    Durability,
    Ending,
    Lease,
    QueueHint,
    Run,
    RunStatus,
    StateSummary,
    Suspects,
)
from threadwire.errors import Fenced, RequestFailed, ThreadwireError
from threadwire.ipc.channel import Channel
from threadwire.storage.segments import Encoded
from threadwire.storage.sqlite.checkpoint_rows import PreparedPut
from threadwire.storage.sqlite.checkpoints import PageRequest, SqliteSaver, StoredPage
from threadwire.storage.sqlite.driver import SqliteStorage
from threadwire.storage.sqlite.run_handle import SqliteRunHandle

_HINT_POLL = 60.0


class _Attempt:
    """An attempt that the worker executes."""

    def __init__(self, handle: SqliteRunHandle) -> None:
        self.handle = handle
        self.error: ThreadwireError | None = None
        """Why a write of the attempt was lost, or None. After a loss it must neither write again nor succeed."""
        self._saver: SqliteSaver | None = None

    @property
    def saver(self) -> SqliteSaver:
        """The worker itself waits if the run's durability requires it, so nothing waits here."""
        if self._saver is None:
            self._saver = self.handle.saver("async")
        return self._saver

    def require_complete(self) -> None:
        if self.error is not None:
            raise type(self.error)(*self.error.args)


class StorageService:
    def __init__(self, storage: SqliteStorage, channel: Channel) -> None:
        self._storage = storage
        self._channel = channel
        self._attempts: dict[tuple[str, int], _Attempt] = {}
        channel.on_notification("open_attempt", self._open_attempt)
        channel.on_notification("append", self._append)
        channel.on_notification("put_soon", self._put_soon)
        for request in (
            self.wait_for_commit,
            self.flush,
            self.finish,
            self.release,
            self.put,
            self.get_checkpoint,
            self.list_checkpoints,
            self.maintain_checkpoints,
            self.prune_checkpoints,
            self.newest_checkpoint,
            self.has_checkpoint,
            self.checkpoint_sizes,
            self.claim,
            self.next_due,
            self.count_active,
            self.renew,
            self.expire_leases,
            self.reclaim,
            self.commit_state,
            self.hold,
            self.end_hold,
            self.read_log,
            self.items,
        ):
            channel.on_request(request.__name__, request)

    async def forward_hints(self) -> None:
        """Forward the hints of the queue, until cancelled."""
        with self._storage.runs.watch() as watcher:
            while True:
                if (hint := await watcher.wait(_HINT_POLL)) != QueueHint.NOTHING:
                    self._channel.notify("queue_changed", hint)

    # Attempts

    def _open_attempt(self, run: Run) -> None:
        self._attempts[run.run_id, run.attempt] = _Attempt(self._storage.handle(run))

    def _append(self, fence: tuple[str, int], entries: list[Encoded]) -> None:
        self._write(fence, lambda attempt: attempt.handle.append_encoded(entries))

    def _put_soon(self, fence: tuple[str, int], portable: tuple[Any, ...]) -> None:
        self._write(fence, lambda attempt: attempt.saver.enqueue(PreparedPut.of_portable(portable)))

    def _write(self, fence: tuple[str, int], write: Callable[[_Attempt], object]) -> None:
        """Enqueue a write of an attempt. The worker does not wait for it, so an error is reported later."""
        try:
            attempt = self._require(fence)
            write(attempt)
        except ThreadwireError as error:
            if fence in self._attempts:
                self._attempts[fence].error = error
            self._channel.notify("attempt_failed", *fence, error)
            return
        if attempt.handle.queue_full:
            self._channel.pause_until(attempt.handle.wait_for_room)

    def _require(self, fence: tuple[str, int]) -> _Attempt:
        attempt = self._attempts.get(fence)
        if attempt is None:
            raise Fenced()
        attempt.require_complete()
        return attempt

    async def wait_for_commit(self, fence: tuple[str, int]) -> None:
        if (job := self._require(fence).handle.last_append) is not None:
            await job.wait()

    async def flush(self, fence: tuple[str, int]) -> None:
        await self._require(fence).handle.flush()

    async def finish(self, fence: tuple[str, int], ending: Ending, now: int, force: bool) -> bool:
        attempt = self._attempts.get(fence)
        if attempt is None:
            return False
        if ending.status != "error" and not ending.rollback and not isinstance(attempt.error, Fenced):
            attempt.require_complete()
        finished = await attempt.handle.finish(ending, now, force=force)
        self._attempts.pop(fence, None)
        return finished

    async def release(self, fence: tuple[str, int], now: int) -> bool:
        attempt = self._attempts.get(fence)
        if attempt is None:
            return False
        released = await attempt.handle.release(now)
        self._attempts.pop(fence, None)
        return released

    # Checkpoints

    async def put(self, fence: tuple[str, int] | None, durability: Durability, portable: tuple[Any, ...]) -> None:
        saver = self._saver(fence)
        job = saver.enqueue(PreparedPut.of_portable(portable))
        if fence is None or durability == "sync":
            await job.wait_or_raise()
        else:
            await self._require(fence).handle.flush()

    def _saver(self, fence: tuple[str, int] | None) -> SqliteSaver:
        return self._storage.checkpoints.saver() if fence is None else self._require(fence).saver

    async def get_checkpoint(self, fence: tuple[str, int] | None, config: Any) -> Any:
        return await self._saver(fence).get_stored(config)

    async def list_checkpoints(self, fence: tuple[str, int] | None, page: tuple[Any, ...]) -> StoredPage:
        return await self._saver(fence).list_stored(PageRequest(*page))

    async def maintain_checkpoints(self, fence: tuple[str, int] | None, name: str, *arguments: Any) -> None:
        if name not in ("adelete_thread", "adelete_for_runs", "acopy_thread"):
            raise RequestFailed(f"A saver has no method {name}.")
        await getattr(self._saver(fence), name)(*arguments)

    async def prune_checkpoints(self, thread_ids: Sequence[str], strategy: str) -> None:
        await self._storage.checkpoints.saver().aprune(thread_ids, strategy=strategy)

    async def newest_checkpoint(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        return await self._storage.checkpoints.newest(thread_id)

    async def has_checkpoint(self, thread_id: ThreadId, checkpoint_id: str, ns: str) -> bool:
        return await self._storage.checkpoints.has(thread_id, checkpoint_id, ns)

    async def checkpoint_sizes(self, thread_id: ThreadId) -> Any:
        return await self._storage.checkpoints.sizes(thread_id)

    # The queue

    async def claim(self, limit: int, lease: Lease, now: int, suspects: Suspects) -> Sequence[Run]:
        return await self._storage.runs.claim(limit, lease, now=now, suspects=suspects)

    async def next_due(self, suspects: Suspects) -> int | None:
        return await self._storage.runs.next_due(suspects=suspects)

    async def count_active(self) -> dict[RunStatus, int]:
        return await self._storage.runs.count_active()

    async def renew(self, lease: Lease) -> Mapping[Fence, CancelAction | None]:
        return await self._storage.runs.renew(lease)

    async def expire_leases(self, worker: str) -> None:
        await self._storage.runs.expire_leases(worker)

    async def reclaim(self, now: int) -> Sequence[Run]:
        return await self._storage.runs.reclaim(now)

    # Threads, the log and the store

    async def commit_state(
        self,
        thread_id: ThreadId,
        summary: StateSummary,
        drafts: Sequence[Draft],
        puts: Sequence[tuple[Any, ...]],
        since: Seq,
        now: int,
        access: AccessFilter,
    ) -> bool:
        prepared = [PreparedPut.of_portable(put) for put in puts]
        commit = self._storage.threads.commit_prepared(
            thread_id, summary, drafts, prepared, since=since, now=now, access=access
        )
        return await commit.wait()

    async def hold(self, thread_id: ThreadId, lease: Lease) -> None:
        await self._storage.threads.hold(thread_id, lease)

    async def end_hold(self, thread_id: ThreadId, worker: str) -> None:
        await self._storage.threads.end_hold(thread_id, worker)

    async def read_log(self, thread_id: ThreadId, after: Seq, limit: int, run_id: RunId | None) -> list[Entry]:
        return await self._storage.log.read(thread_id, after, limit=limit, run_id=run_id)

    async def items(self, operations: Sequence[Any], now: int) -> Any:
        return await self._storage.items.abatch(operations, now)
