"""LangGraph's in-memory saver, with fencing and under the storage's lock."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.channel_of_value import writing_channels
from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CheckpointPut, CheckpointSizes, Durability, Put, Size
from threadwire.errors import Fenced
from threadwire.storage.checkpoint_ids import advance_id_clock
from threadwire.storage.memory.tables import Tables


class MemoryCheckpoints:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def saver(self, durability: Durability = "async") -> BaseCheckpointSaver[str]:
        return FencedSaver(self._tables, None)

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        with self._tables.lock:
            saver = self._tables.checkpoints
            checkpoint_id = newest_root(self._tables, thread_id)
            if checkpoint_id is None:
                return None
            _, metadata, _ = saver.storage[thread_id][""][checkpoint_id]
            return checkpoint_id, _created_by(saver.serde.loads_typed(metadata))

    async def has(self, thread_id: ThreadId, checkpoint_id: str, ns: str = "") -> bool:
        with self._tables.lock:
            return checkpoint_id in self._tables.checkpoints.storage.get(thread_id, {}).get(ns, {})

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        saver = self._tables.checkpoints
        with self._tables.lock:
            rows = [row for checkpoints in saver.storage.get(thread_id, {}).values() for row in checkpoints.values()]
            writes = [write for key, of in saver.writes.items() if key[0] == thread_id for write in of.values()]
            channels: dict[str, Size] = {}
            for (thread, _, channel, _), (_, data) in saver.blobs.items():
                if thread == thread_id:
                    before = channels.get(channel, Size(0, 0))
                    channels[channel] = Size(before.count + 1, before.bytes + len(data))
        return CheckpointSizes(
            checkpoints=Size(len(rows), sum(len(checkpoint[1]) + len(metadata[1]) for checkpoint, metadata, _ in rows)),
            channels=channels,
            writes=Size(len(writes), sum(len(value[1]) for _, _, value, _ in writes)),
        )


class FencedSaver(InMemorySaver):
    """A view of the saver that the storage shares. The async methods are those of `InMemorySaver`, which call these."""

    def __init__(self, tables: Tables, fence: Fence | None) -> None:
        shared = tables.checkpoints
        super().__init__(serde=shared.serde)
        self.storage, self.writes, self.blobs = shared.storage, shared.writes, shared.blobs
        self._tables = tables
        self._fence = fence

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        with self._tables.lock:
            self._check(config)
            with writing_channels(checkpoint["channel_values"].items()):
                return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        with self._tables.lock:
            self._check(config)
            with writing_channels(writes):
                super().put_writes(config, writes, task_id, task_path)
            if self._fence is not None:
                self._record_writes(self._fence.run_id, config, writes, task_id)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        at = config["configurable"]
        with self._tables.lock:
            checkpoints = self.storage.get(at["thread_id"], {}).get(at.get("checkpoint_ns", ""), {})
            advance_id_clock(max(checkpoints, default=""))
            return super().get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        # Read eagerly: a writer could otherwise change the dictionaries while the caller iterates.
        with self._tables.lock:
            return iter([*super().list(config, filter=filter, before=before, limit=limit)])

    # `Any`, because versions of LangGraph that do not call this method lack the type of the values.
    def get_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, Any]:
        with self._tables.lock:
            return super().get_delta_channel_history(config=config, channels=channels)

    def delete_thread(self, thread_id: str) -> None:
        with self._tables.lock:
            super().delete_thread(thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        with self._tables.lock:
            copy_thread(self._tables, source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        with self._tables.lock:
            for thread_id in thread_ids:
                if strategy == "delete":
                    super().delete_thread(thread_id)
                else:
                    keep_latest(self._tables, thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        with self._tables.lock:
            for run_id in run_ids:
                for thread_id in list(self.storage):
                    delete_run_checkpoints(self._tables, ThreadId(thread_id), RunId(run_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.delete_for_runs(run_ids)

    def _record_writes(
        self, run_id: RunId, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str
    ) -> None:
        at = config["configurable"]
        key = (at["thread_id"], at.get("checkpoint_ns", ""), at["checkpoint_id"])
        recorded = self._tables.writes_by_run.setdefault(run_id, set())
        recorded.update((key, (task_id, WRITES_IDX_MAP.get(channel, idx))) for idx, (channel, _) in enumerate(writes))

    def _check(self, config: RunnableConfig) -> None:
        if self._fence is None:
            return
        holder = self._tables.holder(self._fence)
        if holder is None or holder.thread_id != config["configurable"]["thread_id"]:
            raise Fenced


def put_all(tables: Tables, puts: Sequence[Put]) -> None:
    saver = FencedSaver(tables, None)
    for each in puts:
        if isinstance(each, CheckpointPut):
            saver.put(each.config, each.checkpoint, each.metadata, each.new_versions)
        else:
            saver.put_writes(each.config, each.writes, each.task_id, each.task_path)


def newest_root(tables: Tables, thread_id: str) -> str | None:
    return max(tables.checkpoints.storage.get(thread_id, {}).get("", {}), default=None)


def copy_thread(tables: Tables, source: str, target: str) -> None:
    saver = tables.checkpoints
    for namespace, checkpoints in saver.storage.get(source, {}).items():
        saver.storage[target][namespace].update(checkpoints)
    for (thread_id, namespace, checkpoint_id), writes in list(saver.writes.items()):
        if thread_id == source:
            saver.writes[target, namespace, checkpoint_id].update(writes)
    for (thread_id, namespace, channel, version), value in list(saver.blobs.items()):
        if thread_id == source:
            saver.blobs[target, namespace, channel, version] = value


def move_thread(tables: Tables, source: str, target: str) -> None:
    copy_thread(tables, source, target)
    tables.checkpoints.delete_thread(source)


def keep_latest(tables: Tables, thread_id: str) -> bool:
    """Remove all checkpoints except the newest of each namespace and those it depends on. Return whether any were
    removed.

    The channel values of the removed checkpoints stay until the thread is deleted, as after a rollback.
    """
    saver = tables.checkpoints
    removed = False
    for namespace, checkpoints in saver.storage.get(thread_id, {}).items():
        for checkpoint_id in checkpoints.keys() - _needed(saver, thread_id, namespace, max(checkpoints, default="")):
            del checkpoints[checkpoint_id]
            saver.writes.pop((thread_id, namespace, checkpoint_id), None)
            removed = True
    return removed


def _needed(saver: InMemorySaver, thread_id: str, namespace: str, newest: str) -> set[str]:
    """The newest checkpoint and, if it has delta channels, its ancestors back to where each channel has a value."""
    checkpoints = saver.storage[thread_id][namespace]
    needed: set[str] = set()
    deltas: set[str] | None = None
    current: str | None = newest
    while current is not None and current in checkpoints:
        needed.add(current)
        checkpoint, metadata, parent = checkpoints[current]
        if deltas is None:
            deltas = set(saver.serde.loads_typed(metadata).get("counters_since_delta_snapshot") or ())
        versions = saver.serde.loads_typed(checkpoint)["channel_versions"]
        deltas -= _stored_channels(saver, thread_id, namespace, versions)
        current = parent if deltas else None
    return needed


def _stored_channels(saver: InMemorySaver, thread_id: str, namespace: str, versions: ChannelVersions) -> set[str]:
    keys = {channel: (thread_id, namespace, channel, version) for channel, version in versions.items()}
    return {channel for channel, key in keys.items() if key in saver.blobs and saver.blobs[key][0] != "empty"}


def delete_run_checkpoints(tables: Tables, thread_id: ThreadId, run_id: RunId) -> None:
    """Remove a run's checkpoints, in every namespace, and its writes to the checkpoints of other runs (5.9).

    The channel values of its checkpoints stay until the thread is deleted. Versions are random, so nothing refers to
    them any more.
    """
    saver = tables.checkpoints
    for key, write in tables.writes_by_run.pop(run_id, set()):
        saver.writes.get(key, {}).pop(write, None)
    for namespace, checkpoints in saver.storage.get(thread_id, {}).items():
        for checkpoint_id, (_, metadata, _) in list(checkpoints.items()):
            if _created_by(saver.serde.loads_typed(metadata)) == run_id:
                del checkpoints[checkpoint_id]
                saver.writes.pop((thread_id, namespace, checkpoint_id), None)


def _created_by(metadata: CheckpointMetadata) -> RunId | None:
    return metadata.get("run_id")  # type: ignore[return-value]
