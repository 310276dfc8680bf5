"""A checkpointer that collects puts, so that they can be written later, all together, or discarded."""

import copy
from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from threadwire.core.records import CheckpointPut, Put, WritesPut

_Key = tuple[str, str]
"""A namespace and the id of a checkpoint in it."""


class StagingSaver(BaseCheckpointSaver[str]):
    """Wraps another checkpointer for one thread. Reads include the staged puts. Async only, like state updates."""

    def __init__(self, saver: BaseCheckpointSaver[str]) -> None:
        super().__init__(serde=saver.serde)
        self._saver = saver
        self._checkpoints: dict[_Key, CheckpointTuple] = {}
        self._writes: dict[_Key, list[PendingWrite]] = {}
        self.puts: list[Put] = []

    def get_next_version(self, current: str | None, channel: None) -> str:
        return self._saver.get_next_version(current, channel)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        self.puts.append(CheckpointPut(config, checkpoint, metadata, new_versions))
        ns, parent = _namespace(config), get_checkpoint_id(config)
        stored = _config(config, ns, checkpoint["id"])
        self._checkpoints[ns, checkpoint["id"]] = CheckpointTuple(
            config=stored,
            checkpoint=self._copy(checkpoint),
            metadata=get_checkpoint_metadata(config, metadata),
            parent_config=None if parent is None else _config(config, ns, parent),
            pending_writes=[],
        )
        return stored

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.puts.append(WritesPut(config, list(writes), task_id, task_path))
        key = _namespace(config), get_checkpoint_id(config) or ""
        self._writes.setdefault(key, []).extend((task_id, channel, self._copy(value)) for channel, value in writes)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = self._staged(config) or await self._saver.aget_tuple(config)
        if found is None:
            return None
        staged_writes = self._writes.get((_namespace(config), found.checkpoint["id"]), ())
        return found._replace(pending_writes=[*(found.pending_writes or ()), *staged_writes])

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> "StagingSaver":
        clone = copy.copy(self)
        clone._saver = self._saver.with_allowlist(extra_allowlist)
        clone.serde = clone._saver.serde
        return clone

    def _staged(self, config: RunnableConfig) -> CheckpointTuple | None:
        ns, checkpoint_id = _namespace(config), get_checkpoint_id(config)
        if checkpoint_id is None:
            checkpoint_id = max((each for staged_ns, each in self._checkpoints if staged_ns == ns), default="")
        found = self._checkpoints.get((ns, checkpoint_id))
        return None if found is None else found._replace(checkpoint=self._copy(found.checkpoint))

    def _copy(self, value: Any) -> Any:
        """Serialize and deserialize a value, as storing it would, because readers may mutate what they get."""
        return self.serde.loads_typed(self.serde.dumps_typed(value))


def _namespace(config: RunnableConfig) -> str:
    return config["configurable"].get("checkpoint_ns") or ""


def _config(config: RunnableConfig, ns: str, checkpoint_id: str) -> RunnableConfig:
    thread_id = config["configurable"]["thread_id"]
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}
