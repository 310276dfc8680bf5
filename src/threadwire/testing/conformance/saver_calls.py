"""The arguments LangGraph passes to a checkpoint saver at the end of a step."""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.base.id import uuid6

from threadwire.core.ids import RunId, ThreadId

Saver = BaseCheckpointSaver[str]


def config_of(thread_id: ThreadId, ns: str = "") -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}


def future_checkpoint_id() -> str:
    """Return the id of a checkpoint created while the clock was a day ahead."""
    timestamp = uuid6().time + 24 * 3600 * 10**7
    return f"{timestamp >> 28:08x}-{timestamp >> 12 & 0xFFFF:04x}-6{timestamp & 0xFFF:03x}-bfff-ffffffffffff"


def a_step(
    thread_id: ThreadId,
    run_id: RunId | None,
    *,
    ns: str = "",
    parent: RunnableConfig | None = None,
    value: Any = "v",
    checkpoint_id: str | None = None,
) -> tuple[RunnableConfig, Any, Any, Any]:
    """Return the arguments of `put`."""
    config = config_of(thread_id, ns)
    if parent is not None:
        config["configurable"]["checkpoint_id"] = parent["configurable"]["checkpoint_id"]
    versions = {"value": str(uuid6())}
    checkpoint = {
        "v": 4,
        "id": checkpoint_id or str(uuid6(clock_seq=-1)),
        "ts": "2023-11-14T22:13:20+00:00",
        "channel_values": {"value": value},
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
    }
    metadata = {"source": "loop", "step": 0, "parents": {}}
    return config, checkpoint, metadata if run_id is None else metadata | {"run_id": run_id}, versions


async def save(saver: Saver, thread_id: ThreadId, run_id: RunId | None, **options: Any) -> RunnableConfig:
    return await saver.aput(*a_step(thread_id, run_id, **options))


def id_of(stored: RunnableConfig) -> str:
    checkpoint_id = stored["configurable"]["checkpoint_id"]
    assert isinstance(checkpoint_id, str)
    return checkpoint_id
