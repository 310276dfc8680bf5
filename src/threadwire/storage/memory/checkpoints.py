"""LangGraph's own in-memory saver, fenced, and under the storage's lock."""

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
    DeltaChannelHistory,
)
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import Durability
from threadwire.errors import Fenced
from threadwire.storage.memory.tables import Tables


class MemoryCheckpoints:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def saver(self, fence: Fence | None = None, durability: Durability = "async") -> BaseCheckpointSaver[str]:
        return FencedSaver(self._tables, fence)

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        root: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        with self._tables.lock:
            newest = self._tables.checkpoints.get_tuple(root)
        return None if newest is None else (newest.checkpoint["id"], _made_by(newest.metadata))


class FencedSaver(InMemorySaver):
    """A view of the storage's one saver. Its async methods are InMemorySaver's, which call these."""

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
            return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        with self._tables.lock:
            self._check(config)
            super().put_writes(config, writes, task_id, task_path)
            if self._fence is not None:
                self._note_writes(self._fence.run_id, config, writes, task_id)

    async def written(self) -> None:
        return None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with self._tables.lock:
            return super().get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        # All at once, so that no writer changes the dictionaries under a half-read list.
        with self._tables.lock:
            return iter([*super().list(config, filter=filter, before=before, limit=limit)])

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        with self._tables.lock:
            return super().get_delta_channel_history(config=config, channels=channels)

    def delete_thread(self, thread_id: str) -> None:
        with self._tables.lock:
            super().delete_thread(thread_id)

    def _note_writes(
        self, run_id: RunId, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str
    ) -> None:
        at = config["configurable"]
        place = (at["thread_id"], at.get("checkpoint_ns", ""), at["checkpoint_id"])
        noted = self._tables.writes_of.setdefault(run_id, set())
        noted.update((place, (task_id, WRITES_IDX_MAP.get(channel, idx))) for idx, (channel, _) in enumerate(writes))

    def _check(self, config: RunnableConfig) -> None:
        if self._fence is None:
            return
        holder = self._tables.holder(self._fence)
        if holder is None or holder.thread_id != config["configurable"]["thread_id"]:
            raise Fenced


def forget_run(tables: Tables, thread_id: ThreadId, run_id: RunId) -> None:
    """Remove what a run saved, in every namespace, and what it wrote on others' checkpoints (5.9).

    The values its checkpoints named stay until the thread goes: versions are random, so nothing finds them.
    """
    saver = tables.checkpoints
    for place, write in tables.writes_of.pop(run_id, set()):
        saver.writes.get(place, {}).pop(write, None)
    for namespace, checkpoints in saver.storage.get(thread_id, {}).items():
        for checkpoint_id, (_, metadata, _) in list(checkpoints.items()):
            if _made_by(saver.serde.loads_typed(metadata)) == run_id:
                del checkpoints[checkpoint_id]
                saver.writes.pop((thread_id, namespace, checkpoint_id), None)


def _made_by(metadata: CheckpointMetadata) -> RunId | None:
    return metadata.get("run_id")  # type: ignore[return-value]
