"""Read, update and list a thread's state with LangGraph.

Must be called on a user loop, because it runs the graph's code.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import InvalidUpdateError
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph.types import StateSnapshot, StateUpdate

from threadwire.core.entries import Json
from threadwire.core.json import native
from threadwire.core.records import Put, StateSummary, Supersteps, Update
from threadwire.errors import BadRequest, NotFound
from threadwire.graphs.execution import decode_command
from threadwire.graphs.langgraph_private.error_texts import is_cancellation, names_missing_subgraph
from threadwire.graphs.staging_saver import StagingSaver
from threadwire.graphs.stream_normalizer import render_interrupt

Graph = Pregel[Any, Any, Any, Any]
Saver = BaseCheckpointSaver[str]

EMPTY: dict[str, Json] = {
    "values": {},
    "next": [],
    "tasks": [],
    "metadata": None,
    "created_at": None,
    "checkpoint": None,
    "parent_checkpoint": None,
    "interrupts": [],
    "checkpoint_id": None,
    "parent_checkpoint_id": None,
}
"""The state of a thread without checkpoints."""


async def read(
    graph: Graph,
    saver: Saver,
    configurable: dict[str, Any],
    *,
    subgraphs: bool,
    render_values: Callable[[Any], Json] = native,
) -> Json:
    bound = graph.copy(update={"checkpointer": saver})
    with _client_errors():
        return render(await _read(bound, configurable, subgraphs=subgraphs), render_values)


async def _read(bound: Graph, configurable: dict[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
    """Return the state. If a reducer rejects a pending write, such as a malformed message that failed the last run,
    return the state without the pending writes, which are the results of finished tasks."""
    try:
        return await bound.aget_state(_config(configurable), subgraphs=subgraphs)
    except Exception:
        named = await _newest_named(bound, configurable)
        if named is None:
            raise
    # LangGraph applies pending writes only if the request does not name the checkpoint.
    return await bound.aget_state(_config(named), subgraphs=subgraphs)


async def _newest_named(bound: Graph, configurable: dict[str, Any]) -> dict[str, Any] | None:
    """Return `configurable` with the id of the newest checkpoint; None if it names one already, or there is none."""
    if configurable.get("checkpoint_id"):
        return None
    saved = await cast("Saver", bound.checkpointer).aget_tuple(_config(configurable))
    return None if saved is None else {**configurable, "checkpoint_id": saved.checkpoint["id"]}


async def history(
    graph: Graph,
    saver: Saver,
    configurable: dict[str, Any],
    *,
    limit: int,
    before: dict[str, Any] | None,
    metadata: dict[str, Any] | None,
) -> list[Json]:
    bound = graph.copy(update={"checkpointer": saver})
    snapshots = bound.aget_state_history(
        _config(configurable),
        limit=limit,
        before=_config(before) if before else None,
        filter=metadata or None,
    )
    with _client_errors():
        return [render(snapshot) async for snapshot in snapshots]


@dataclass(frozen=True, slots=True)
class StagedUpdate:
    """The result of an update, and the puts that would store it."""

    configurable: dict[str, Any]
    summary: StateSummary
    puts: list[Put]


async def update(
    graph: Graph, saver: Saver, store: BaseStore, configurable: dict[str, Any], values: Any, as_node: str | None
) -> StagedUpdate:
    """Compute the result of an update without writing anything."""
    staging = StagingSaver(saver)
    bound = graph.copy(update={"checkpointer": staging, "store": store})
    with _client_errors():
        updated = await bound.aupdate_state(_config(configurable), values, as_node=as_node)
    _, summary = await _newest(bound, configurable["thread_id"])
    return StagedUpdate(dict(updated["configurable"]), summary, staging.puts)


async def build(
    graph: Graph, saver: Saver, store: BaseStore, configurable: dict[str, Any], supersteps: Supersteps
) -> tuple[str | None, StateSummary]:
    """Apply updates, step by step, to a thread without checkpoints. Return the same as `newest`."""
    bound = graph.copy(update={"checkpointer": saver, "store": store})
    steps = [[_state_update(each) for each in step] for step in supersteps]
    with _client_errors():
        await bound.abulk_update_state(_config(configurable), steps)
    return await _newest(bound, configurable["thread_id"])


def _state_update(update: Update) -> StateUpdate:
    values = update.values if update.command is None else decode_command(update.command)
    return StateUpdate(values, update.as_node)  # type: ignore[arg-type]  # a command is what a node may return


async def newest(graph: Graph, saver: Saver, thread_id: str) -> tuple[str | None, StateSummary]:
    """Return the id of the newest checkpoint, and the resulting state of the thread."""
    return await _newest(graph.copy(update={"checkpointer": saver}), thread_id)


async def _newest(bound: Graph, thread_id: str) -> tuple[str | None, StateSummary]:
    snapshot = await _read(bound, {"thread_id": thread_id, "checkpoint_ns": ""})
    return snapshot.config["configurable"].get("checkpoint_id"), summary(snapshot)


@contextmanager
def _client_errors() -> Iterator[None]:
    """Turn LangGraph's errors about an invalid request into errors for the client."""
    try:
        yield
    except InvalidUpdateError as error:
        raise BadRequest(str(error)) from error
    except ValueError as error:
        if names_missing_subgraph(error):
            raise NotFound(str(error)) from error
        raise


def summary(snapshot: StateSnapshot) -> StateSummary:
    return StateSummary(
        status="interrupted" if snapshot.next else "idle",
        values=native(snapshot.values),
        interrupts={
            task.id: [render_interrupt(each) for each in task.interrupts] for task in snapshot.tasks if task.interrupts
        },
    )


def render(snapshot: StateSnapshot, render_values: Callable[[Any], Json] = native) -> Json:
    """Render a snapshot in the format of the SDKs. Rendering may run the project's code."""
    checkpoint = _checkpoint(snapshot.config)
    parent = _checkpoint(snapshot.parent_config)
    if checkpoint is None or checkpoint.get("checkpoint_id") is None:
        return EMPTY
    return {
        "values": render_values(snapshot.values),
        "next": list(snapshot.next),
        "tasks": [_task(task) for task in snapshot.tasks],
        "metadata": _metadata(snapshot, checkpoint),
        "created_at": snapshot.created_at,
        "checkpoint": checkpoint,
        "parent_checkpoint": parent,
        "interrupts": [render_interrupt(each) for each in snapshot.interrupts],
        "checkpoint_id": checkpoint["checkpoint_id"],
        "parent_checkpoint_id": parent.get("checkpoint_id") if parent else None,
    }


def _metadata(snapshot: StateSnapshot, checkpoint: dict[str, Any]) -> Json:
    """None if the checkpoint does not exist."""
    if snapshot.metadata is None:
        return None
    return {"thread_id": checkpoint["thread_id"], **native(snapshot.metadata)}


def _task(task: Any) -> Json:
    nested = task.state if isinstance(task.state, StateSnapshot) else None
    pointer = task.state if isinstance(task.state, dict) else None
    return {
        "id": task.id,
        "name": task.name,
        "path": native(task.path),
        "error": _error(task.error),
        "interrupts": [render_interrupt(each) for each in task.interrupts],
        "checkpoint": native(pointer["configurable"]) if pointer else None,
        "state": render(nested) if nested is not None else None,
        "result": native(task.result),
    }


def _error(error: Any) -> Json:
    """Why a task failed. LangGraph also records a cancellation as an error, but a cancelled run has not failed."""
    rendered = repr(error) if isinstance(error, BaseException) else native(error)
    return None if is_cancellation(rendered) else rendered


def _checkpoint(config: Any) -> dict[str, Any] | None:
    if not config:
        return None
    configurable = config["configurable"]
    fields = {key: configurable[key] for key in ("checkpoint_id", "thread_id", "checkpoint_ns") if key in configurable}
    if "checkpoint_map" in configurable:
        fields["checkpoint_map"] = configurable["checkpoint_map"]
    return fields


def _config(configurable: dict[str, Any]) -> RunnableConfig:
    return cast("RunnableConfig", {"configurable": configurable})
