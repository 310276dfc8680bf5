"""The storage as a worker process sees it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from weakref import WeakValueDictionary

from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.entries import Draft, Entry, Fence
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import (
    CancelAction,
    CheckpointSizes,
    Durability,
    Lease,
    Put,
    Run,
    RunStatus,
    StateSummary,
    Suspects,
)
from threadwire.core.store_items import ItemOperation, ItemResult
from threadwire.errors import StorageFailed, StorageUnavailable, ThreadwireError
from threadwire.ipc.channel import Channel
from threadwire.storage.checkpoint_encoding import encode_put
from threadwire.storage.queue_hints import QueueHints, QueueWatcher
from threadwire.storage.sqlite.checkpoint_rows import prepare
from threadwire.storage.sqlite.remote.run_handle import RemoteRunHandle
from threadwire.storage.sqlite.remote.saver import RemoteSaver


class RemoteStorage:
    def __init__(self, channel: Channel, serializer: SerializerProtocol, clock: Callable[[], int]) -> None:
        self._channel = channel
        self._serializer = serializer
        self._clock = clock
        self._handles: WeakValueDictionary[tuple[str, int], RemoteRunHandle] = WeakValueDictionary()
        self.log = RemoteLog(channel)
        self.threads = RemoteThreads(channel, serializer)
        self.runs = RemoteRuns(channel)
        self.checkpoints = RemoteCheckpoints(channel, serializer)
        self.items = RemoteItems(channel)
        channel.on_notification("attempt_failed", self._attempt_failed)

    def handle(self, run: Run) -> RemoteRunHandle:
        handle = RemoteRunHandle(run, self._channel, self._serializer, self._clock)
        self._handles[run.run_id, run.attempt] = handle
        return handle

    def _attempt_failed(self, run_id: str, attempt: int, error: ThreadwireError) -> None:
        if (handle := self._handles.get((run_id, attempt))) is not None:
            handle.fail(error)

    @property
    def fatal_error(self) -> StorageFailed | None:
        """Never set: if the storage fails, its owner ends, and the worker process with it."""
        return None

    @property
    def write_error(self) -> StorageUnavailable | None:
        """Never set: only the owner knows the error. In a worker process, the write itself raises it."""
        return None

    async def wait_for_failure(self) -> None:
        await asyncio.get_running_loop().create_future()


class RemoteLog:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def read(
        self, thread_id: ThreadId, after: Seq, *, limit: int = 1000, run_id: RunId | None = None
    ) -> list[Entry]:
        entries: list[Entry] = await self._channel.request("read_log", thread_id, after, limit, run_id)
        return entries


class RemoteRuns:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._hints = QueueHints()
        channel.on_notification("queue_changed", self._hints.hint)

    async def claim(self, limit: int, lease: Lease, *, now: int, suspects: Suspects = "one") -> Sequence[Run]:
        claimed: Sequence[Run] = await self._channel.request("claim", limit, lease, now, suspects)
        return claimed

    async def next_due(self, *, suspects: Suspects = "one") -> int | None:
        due: int | None = await self._channel.request("next_due", suspects)
        return due

    async def count_active(self) -> dict[RunStatus, int]:
        counts: dict[RunStatus, int] = await self._channel.request("count_active")
        return counts

    async def renew(self, lease: Lease) -> Mapping[Fence, CancelAction | None]:
        held: Mapping[Fence, CancelAction | None] = await self._channel.request("renew", lease)
        return held

    def watch(self) -> AbstractContextManager[QueueWatcher]:
        return self._hints.watching()

    async def expire_leases(self, worker: str) -> None:
        await self._channel.request("expire_leases", worker)

    async def reclaim(self, now: int) -> Sequence[Run]:
        recovered: Sequence[Run] = await self._channel.request("reclaim", now)
        return recovered


class RemoteStateCommit:
    def __init__(self, done: "Future[bool]") -> None:
        self._done = done

    async def wait(self) -> bool:
        return await asyncio.wrap_future(self._done)


class RemoteThreads:
    def __init__(self, channel: Channel, serializer: SerializerProtocol) -> None:
        self._channel = channel
        self._serializer = serializer

    def commit_state(
        self,
        thread_id: ThreadId,
        summary: StateSummary,
        drafts: Sequence[Draft],
        puts: Sequence[Put] = (),
        *,
        since: Seq,
        now: int,
        access: AccessFilter = EVERYTHING,
    ) -> RemoteStateCommit:
        prepared = [prepare(encode_put(self._serializer, put)).portable() for put in puts]
        arguments = (thread_id, summary, [*drafts], prepared, since, now, access)
        return RemoteStateCommit(self._channel.start_request("commit_state", *arguments))

    async def hold(self, thread_id: ThreadId, lease: Lease) -> None:
        await self._channel.request("hold", thread_id, lease)

    async def end_hold(self, thread_id: ThreadId, worker: str) -> None:
        await self._channel.request("end_hold", thread_id, worker)


class RemoteCheckpoints:
    def __init__(self, channel: Channel, serializer: SerializerProtocol) -> None:
        self._channel = channel
        self._serializer = serializer

    def saver(self, durability: Durability = "async") -> RemoteSaver:
        return RemoteSaver(self._channel, self._serializer, None, durability)

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        newest: tuple[str, RunId | None] | None = await self._channel.request("newest_checkpoint", thread_id)
        return newest

    async def has(self, thread_id: ThreadId, checkpoint_id: str, ns: str = "") -> bool:
        found: bool = await self._channel.request("has_checkpoint", thread_id, checkpoint_id, ns)
        return found

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        sizes: CheckpointSizes = await self._channel.request("checkpoint_sizes", thread_id)
        return sizes


class RemoteItems:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def batch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        results: list[ItemResult] = self._channel.request_blocking("items", [*operations], now)
        return results

    async def abatch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        results: list[ItemResult] = await self._channel.request("items", [*operations], now)
        return results
