"""A saver that keeps back what it is given, so that it can be written later, at once, or not at all."""

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

_Place = tuple[str, str]
"""A namespace, and the id of a checkpoint in it."""


class StagingSaver(BaseCheckpointSaver[str]):
    """Over another saver, for one thread: it reads as if everything had been put. Async alone, as updates are."""

    def __init__(self, home: BaseCheckpointSaver[str]) -> None:
        super().__init__(serde=home.serde)
        self._home = home
        self._checkpoints: dict[_Place, CheckpointTuple] = {}
        self._writes: dict[_Place, list[PendingWrite]] = {}
        self.puts: list[Put] = []

    def get_next_version(self, current: str | None, channel: None) -> str:
        return self._home.get_next_version(current, channel)

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
        place = _namespace(config), get_checkpoint_id(config) or ""
        self._writes.setdefault(place, []).extend((task_id, channel, self._copy(value)) for channel, value in writes)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = self._staged(config) or await self._home.aget_tuple(config)
        if found is None:
            return None
        more = self._writes.get((_namespace(config), found.checkpoint["id"]), ())
        return found._replace(pending_writes=[*(found.pending_writes or ()), *more])

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> "StagingSaver":
        clone = copy.copy(self)
        clone._home = self._home.with_allowlist(extra_allowlist)
        clone.serde = clone._home.serde
        return clone

    def _staged(self, config: RunnableConfig) -> CheckpointTuple | None:
        ns, wanted = _namespace(config), get_checkpoint_id(config)
        if wanted is None:
            wanted = max((checkpoint_id for at, checkpoint_id in self._checkpoints if at == ns), default="")
        found = self._checkpoints.get((ns, wanted))
        return None if found is None else found._replace(checkpoint=self._copy(found.checkpoint))

    def _copy(self, value: Any) -> Any:
        """As it would come back from where it is put: whoever reads it may change it."""
        return self.serde.loads_typed(self.serde.dumps_typed(value))


def _namespace(config: RunnableConfig) -> str:
    return config["configurable"].get("checkpoint_ns") or ""


def _config(config: RunnableConfig, ns: str, checkpoint_id: str) -> RunnableConfig:
    thread_id = config["configurable"]["thread_id"]
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}
