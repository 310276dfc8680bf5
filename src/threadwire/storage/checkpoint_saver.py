"""The base class of the savers of drivers that store checkpoints in tables."""

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.ids import RunId
from threadwire.storage.checkpoint_encoding import EncodedPut, encode_checkpoint, encode_writes, next_version


class EncodingSaver(BaseCheckpointSaver[str]):
    """Serializes every put, on the caller's thread."""

    def __init__(self, serde: SerializerProtocol, run_id: RunId | None) -> None:
        """`run_id` is the run whose attempt the saver belongs to, if any."""
        self.serde = serde  # not through the base class, which takes 20 µs to check that it is a serializer
        self._run_id = run_id

    @abstractmethod
    def _store_blocking(self, put: EncodedPut) -> None: ...

    @abstractmethod
    async def _store(self, put: EncodedPut) -> None: ...

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        encoded = encode_checkpoint(self.serde, config, checkpoint, metadata, new_versions)
        self._store_blocking(encoded)
        return encoded.config

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        encoded = encode_checkpoint(self.serde, config, checkpoint, metadata, new_versions)
        await self._store(encoded)
        return encoded.config

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._store_blocking(encode_writes(self.serde, self._run_id, config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._store(encode_writes(self.serde, self._run_id, config, writes, task_id, task_path))

    def get_next_version(self, current: str | None, channel: None) -> str:
        return next_version(current)


# LangGraph inspects the signatures of a saver's methods for every run; cached here, they are computed only once.
for _method in (EncodingSaver.put_writes, EncodingSaver.aput_writes):
    setattr(_method, "__signature__", inspect.signature(_method))  # noqa: B010 - mypy does not know the attribute
