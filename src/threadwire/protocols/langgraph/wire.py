"""The JSON objects of the LangGraph API."""

from typing import Any

from threadwire.core.configuration import configurable_of
from threadwire.core.entries import Json
from threadwire.core.ids import ThreadId
from threadwire.core.json import dumps, loads
from threadwire.core.records import Assistant, AssistantVersion, CheckpointSizes, Cron, Delivery, Run, Size, Thread
from threadwire.core.temporary_caches import temporary_cache
from threadwire.core.timestamps import to_datetime


@temporary_cache(maxsize=256)  # most objects have several equal timestamps
def iso(at: int | None) -> str | None:
    return None if at is None else to_datetime(at).isoformat(timespec="microseconds")


def assistant_json(assistant: Assistant) -> Json:
    return {
        "assistant_id": assistant.assistant_id,
        "graph_id": assistant.graph_id,
        "config": assistant.config,
        "context": assistant.context,
        "metadata": assistant.metadata,
        "name": assistant.name,
        "created_at": iso(assistant.created_at),
        "updated_at": iso(assistant.updated_at),
        "version": assistant.version,
        "description": assistant.description,
    }


def version_json(version: AssistantVersion) -> Json:
    return {
        "assistant_id": version.assistant_id,
        "version": version.version,
        "graph_id": version.graph_id,
        "config": version.config,
        "context": version.context,
        "metadata": version.metadata,
        "created_at": iso(version.created_at),
        "name": version.name,
        "description": version.description,
    }


def thread_json(thread: Thread, *, include_ttl: bool = False) -> Json:
    """A thread. The keys that describe how a run ended are missing until the first run has ended."""
    shown: dict[str, Json] = {
        "thread_id": thread.thread_id,
        "created_at": iso(thread.created_at),
        "updated_at": iso(thread.updated_at),
        "state_updated_at": iso(thread.state_updated_at),
        "metadata": thread.metadata,
        "status": thread.status,
        "config": thread.config,
        "values": thread.values,
    }
    if thread.values is not None or thread.error is not None or thread.status in ("interrupted", "error"):
        shown |= {"error": thread.error, "interrupts": thread.interrupts}
    if include_ttl and thread.ttl is not None:
        shown["ttl"] = {
            "strategy": thread.ttl.strategy,
            "ttl_minutes": thread.ttl.minutes,
            "expires_at": iso(thread.expires_at),
        }
    return shown


def storage_json(thread_id: ThreadId, sizes: CheckpointSizes) -> Json:
    values = sizes.channels.values()
    stored = Size(sum(each.count for each in values), sum(each.bytes for each in values))
    by_channel = {name: {"versions": each.count, "bytes": each.bytes} for name, each in sizes.channels.items()}
    return {
        "thread_id": thread_id,
        "total_bytes": sizes.checkpoints.bytes + stored.bytes + sizes.writes.bytes,
        "checkpoints": {"count": sizes.checkpoints.count, "bytes": sizes.checkpoints.bytes},
        "channel_values": {"count": stored.count, "bytes": stored.bytes, "by_channel": by_channel},
        "pending_writes": {"count": sizes.writes.count, "bytes": sizes.writes.bytes},
    }


def encoded_state(state: bytes, fields: frozenset[str] | None) -> bytes:
    """The JSON of a state with the selected fields."""
    return state if fields is None else dumps(state_json(loads(state), fields))


def state_json(state: Json, fields: frozenset[str] | None) -> Json:
    """A state with the selected fields: names, or `values.<key>` for a single value."""
    if fields is None:
        return state
    shown = {key: value for key, value in state.items() if key in fields}
    keys = {field.removeprefix("values.") for field in fields if field.startswith("values.")}
    if keys and "values" not in fields:
        values = state["values"] if isinstance(state["values"], dict) else {}
        shown["values"] = {key: value for key, value in values.items() if key in keys}
    return shown


RUN_FIELDS = frozenset(
    {
        "run_id",
        "thread_id",
        "assistant_id",
        "metadata",
        "status",
        "kwargs",
        "multitask_strategy",
        "created_at",
        "updated_at",
        "langsmith_session_name",
    }
)


def run_json(run: Run) -> Json:
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "assistant_id": run.assistant_id,
        "metadata": run.metadata,
        "status": run.status,
        "kwargs": _kwargs(run),
        "multitask_strategy": run.multitask_strategy,
        "created_at": iso(run.created_at),
        "updated_at": iso(run.updated_at),
        "langsmith_session_name": None,
    }


def _kwargs(run: Run) -> dict[str, Any]:
    config = run.kwargs.get("config") or {}
    return {**run.kwargs, "config": {**config, "configurable": configurable_of(run), "metadata": run.metadata}}


def webhook_json(delivery: Delivery, sent_at: int) -> Json:
    """The body of a webhook delivery for a run that has ended."""
    run = delivery.run
    body = {
        **run_json(run),
        "run_started_at": iso(run.started_at),
        "run_ended_at": iso(run.updated_at),
        "webhook_sent_at": iso(sent_at),
        "values": delivery.values,
    }
    return body if run.error is None else {**body, "error": run.error}


def cron_json(cron: Cron) -> Json:
    keep = "keep" if cron.keep_threads else "delete"
    return {
        "cron_id": cron.cron_id,
        "assistant_id": cron.assistant_id,
        "thread_id": cron.thread_id,
        "user_id": cron.owner or "",
        "end_time": _plain_iso(cron.end_time),
        "schedule": cron.schedule,
        "timezone": cron.timezone,
        "payload": cron.payload,
        "next_run_date": _plain_iso(cron.next_run_at),
        "metadata": cron.metadata,
        "on_run_completed": keep if cron.thread_id is None else None,
        "enabled": cron.enabled,
        "created_at": iso(cron.created_at),
        "updated_at": iso(cron.updated_at),
    }


def _plain_iso(at: int | None) -> str | None:
    return None if at is None else to_datetime(at).isoformat()


def update_json(config: dict[str, Any]) -> Json:
    checkpoint = {key: config.get(key) for key in ("thread_id", "checkpoint_ns", "checkpoint_id")}
    return {"checkpoint": checkpoint, "configurable": dict(checkpoint), "checkpoint_id": checkpoint["checkpoint_id"]}


def item_json(item: Any) -> Json:
    """An item that a LangGraph store returned."""
    return {
        "namespace": list(item.namespace),
        "key": item.key,
        "value": item.value,
        "created_at": item.created_at.isoformat(timespec="microseconds"),
        "updated_at": item.updated_at.isoformat(timespec="microseconds"),
    }


def found_item_json(item: Any) -> Json:
    return {**item_json(item), "score": item.score}


def run_path(run: Run) -> str:
    return f"/threads/{run.thread_id}/runs/{run.run_id}"


def short_run_path(run: Run) -> str:
    return f"/runs/{run.run_id}"
