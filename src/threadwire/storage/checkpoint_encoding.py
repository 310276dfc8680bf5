"""Checkpoints as rows: what drivers that store checkpoints in tables have in common. Pure: no database.

A checkpoint is a row. The values of its channels are separate rows, one for every *version* of a channel, so that a
step writes only what it changed. Small plain values are stored inline in the checkpoint, because a row of their own
would take more space than they do.

State is mutable and may change after LangGraph has passed it on, so it is serialized on the caller's thread.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core import json
from threadwire.core.channel_of_value import writing_channels
from threadwire.core.ids import ThreadId
from threadwire.core.records import CheckpointPut, Put
from threadwire.storage.serializer import strict_serializer

_INLINE_TEXT = 64

# For the channel names and versions that a driver itself reads in a checkpoint, never for user types.
_SERIALIZER = strict_serializer()


class Address(NamedTuple):
    thread_id: ThreadId
    ns: str
    checkpoint_id: str | None


def address_of(config: RunnableConfig) -> Address:
    configurable = config["configurable"]
    return Address(
        ThreadId(str(configurable["thread_id"])), configurable.get("checkpoint_ns") or "", get_checkpoint_id(config)
    )


def config_at(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def next_version(current: str | None) -> str:
    """Return a larger version, unique per branch, because two forks of a checkpoint must not share a blob."""
    number = 0 if current is None else int(current.partition(".")[0])
    return f"{number + 1:010}.{random.getrandbits(48):012x}"


class EncodedBlob(NamedTuple):
    channel: str
    version: str
    type: str
    data: bytes


class EncodedCheckpoint(NamedTuple):
    address: Address
    """Its `checkpoint_id` is that of the parent."""
    checkpoint_id: str
    run_id: str | None
    type: str
    data: bytes
    metadata: str
    blobs: list[EncodedBlob]

    @property
    def weight(self) -> int:
        return len(self.data) + sum(len(blob.data) for blob in self.blobs)

    @property
    def config(self) -> RunnableConfig:
        return config_at(self.address.thread_id, self.address.ns, self.checkpoint_id)


class EncodedWrite(NamedTuple):
    task_id: str
    place: int
    """Negative for errors and interrupts, which overwrite those of an earlier execution of the task."""
    path: str
    channel: str
    type: str
    data: bytes


class EncodedWrites(NamedTuple):
    address: Address
    """Its `checkpoint_id` is that of the checkpoint that the writes belong to."""
    run_id: str | None
    writes: list[EncodedWrite]

    @property
    def weight(self) -> int:
        return sum(len(write.data) for write in self.writes)


EncodedPut: TypeAlias = EncodedCheckpoint | EncodedWrites


def encode_put(serde: SerializerProtocol, put: Put) -> EncodedPut:
    """Serialize a put, to be executed in a later transaction; its objects may change meanwhile."""
    if isinstance(put, CheckpointPut):
        return encode_checkpoint(serde, put.config, put.checkpoint, put.metadata, put.new_versions)
    return encode_writes(serde, None, put.config, put.writes, put.task_id, put.task_path)


def encode_checkpoint(
    serde: SerializerProtocol,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> EncodedCheckpoint:
    blobs: list[EncodedBlob] = []
    inline: dict[str, Any] = {}
    values = checkpoint["channel_values"].items()
    with writing_channels(values):
        for channel, value in values:
            if _is_small(value):
                inline[channel] = value
            elif channel in new_versions:
                blobs.append(EncodedBlob(channel, str(new_versions[channel]), *serde.dumps_typed(value)))
    kind, data = serde.dumps_typed({**checkpoint, "channel_values": inline})
    described = get_checkpoint_metadata(config, metadata)
    run = described.get("run_id")
    return EncodedCheckpoint(
        address_of(config),
        checkpoint["id"],
        None if run is None else str(run),
        kind,
        data,
        json.dumps(described).decode(),
        blobs,
    )


def encode_writes(
    serde: SerializerProtocol,
    run_id: str | None,
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
) -> EncodedWrites:
    address = address_of(config)
    assert address.checkpoint_id is not None
    with writing_channels(writes):
        encoded = [
            EncodedWrite(task_id, WRITES_IDX_MAP.get(channel, index), task_path, channel, *serde.dumps_typed(value))
            for index, (channel, value) in enumerate(writes)
        ]
    return EncodedWrites(address, run_id, encoded)


# Reading


Row: TypeAlias = Sequence[Any]


class StoredCheckpoint(NamedTuple):
    """A checkpoint as stored, with the values of its channels and its writes still serialized."""

    row: Row
    """`(thread, ns, checkpoint, parent, type, data, metadata)`"""
    blobs: Sequence[Row]
    """`(channel, type, data)`"""
    writes: Sequence[Row]
    """`(task, channel, type, data)`"""


def decode_checkpoint(serde: SerializerProtocol, row: Row) -> Checkpoint:
    """The checkpoint of a row, with only its inline values."""
    _, _, _, _, kind, data, _ = row
    checkpoint: Checkpoint = serde.loads_typed((kind, data))
    return checkpoint


def assemble(
    serde: SerializerProtocol, thread_id: str, stored: StoredCheckpoint, checkpoint: Checkpoint | None = None
) -> CheckpointTuple:
    """Assemble a checkpoint from its rows. Pass `checkpoint` if its own row is decoded already."""
    _, ns, checkpoint_id, parent, _, _, metadata = stored.row
    if checkpoint is None:
        checkpoint = decode_checkpoint(serde, stored.row)
    for channel, kind, data in stored.blobs:
        checkpoint["channel_values"][channel] = serde.loads_typed((kind, data))
    return CheckpointTuple(
        config=config_at(thread_id, ns, checkpoint_id),
        checkpoint=checkpoint,
        metadata=cast("CheckpointMetadata", json.loads(metadata)),
        parent_config=None if parent is None else config_at(thread_id, ns, parent),
        pending_writes=[
            (task, channel, serde.loads_typed((kind, data))) for task, channel, kind, data in stored.writes
        ],
    )


def channel_versions(kind: str, data: bytes) -> set[tuple[str, str]]:
    """The channels and versions that a stored checkpoint refers to."""
    checkpoint: Checkpoint = _SERIALIZER.loads_typed((kind, data))
    return {(channel, str(version)) for channel, version in checkpoint["channel_versions"].items()}


def inline_channels(kind: str, data: bytes) -> set[str]:
    """The channels whose values a stored checkpoint contains itself."""
    checkpoint: Checkpoint = _SERIALIZER.loads_typed((kind, data))
    return set(checkpoint["channel_values"])


def _is_small(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-(2**63) <= value < 2**64)  # msgpack would encode larger ones as objects, which must not be inline
    return value is None or kind is bool or kind is float or (kind is str and len(value) <= _INLINE_TEXT)
