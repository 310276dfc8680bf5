"""The configuration of a graph has two names: `context`, and the older `config.configurable`.

A value given under one name is also set under the other, so that graphs can read either and clients can send either.
"""

from typing import Any

from threadwire.core.records import Run
from threadwire.errors import BadRequest

Config = dict[str, Any]

LOCATION_KEYS = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "cron_id"})
"""Keys of `configurable` that name a thread, a checkpoint or a cron and do not configure the graph."""

_BOTH = (
    "Cannot specify both configurable and context. Prefer setting context alone. Context was introduced in LangGraph"
    " 0.6.0 and is the long term planned replacement for configurable."
)


def base_checkpoint_of(config: Config) -> str | None:
    """Return the checkpoint that a run starts from, or None for the newest. LangGraph honors it only at the root."""
    configurable: Config = config.get("configurable") or {}
    if configurable.get("checkpoint_ns") or not (named := configurable.get("checkpoint_id")):
        return None
    return str(named)


def configurable_of(run: Run) -> Config:
    """Return the `configurable` of a run: the given keys, and those that describe the run itself.

    `user_id` may be given too, for projects that have no authentication but remember things by user. Who called is in
    `langgraph_auth_user_id`, which cannot be given."""
    given: Config = (run.kwargs.get("config") or {}).get("configurable") or {}
    return {
        **given,
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "graph_id": run.graph_id,
        "assistant_id": run.assistant_id,
        "user_id": given.get("user_id") or run.owner or "",
        "langgraph_auth_user": None,
        "langgraph_auth_user_id": run.owner or "",
        "langgraph_auth_permissions": [],
    }


def sync_configuration(config: Config, context: Config | None, before: Config | None = None) -> tuple[Config, Config]:
    """Return the config and the context of an assistant, with the configuration under both names. If neither `config`
    nor `context` has one, keep the configuration from `before`. Raise `BadRequest` if both do."""
    configurable = config.get("configurable")
    if configurable and context:
        raise BadRequest(_BOTH)
    shared: Config = configurable or context or {}
    if configurable is None and context is None:
        shared = before or {}
    rest = {key: value for key, value in config.items() if key != "configurable"}
    return {**rest, "configurable": shared} if shared else rest, shared


def merge_run_configuration(
    config: Config, context: Config, base_config: Config, base_context: Config
) -> tuple[Config, Config]:
    """Return the config and the context of a run, merged over those of its assistant. Raise `BadRequest` if the run was
    given a configuration under both names."""
    configurable: Config = config.get("configurable") or {}
    configured = {key: value for key, value in configurable.items() if key not in LOCATION_KEYS}
    if configured and context:
        raise BadRequest(_BOTH)
    base: Config = base_config.get("configurable") or {}
    merged = {**base_config, **config, "configurable": {**base, **configurable, **context}}
    return merged, {**base_context, **configured, **context}
