"""What a graph is configured with goes by two names: `context`, and `config.configurable`, its older one.

Whoever gives one gives the other. Graphs that read either, and clients that send either, then work together.
"""

from typing import Any

from threadwire.core.records import Run
from threadwire.errors import BadRequest

Settings = dict[str, Any]

PLACES = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "cron_id"})
"""Keys of `configurable` that say where in which thread, or for which cron, and configure nothing."""

_BOTH = (
    "Cannot specify both configurable and context. Prefer setting context alone. Context was introduced in LangGraph"
    " 0.6.0 and is the long term planned replacement for configurable."
)


def base_of(config: Settings) -> str | None:
    """The checkpoint that a run is to start from, if it is not the newest. LangGraph heeds it at the root alone."""
    configurable: Settings = config.get("configurable") or {}
    if configurable.get("checkpoint_ns") or not (named := configurable.get("checkpoint_id")):
        return None
    return str(named)


def configurable_of(run: Run) -> Settings:
    """What a run was given as `configurable`, and what every run is told there of itself."""
    return {
        **((run.kwargs.get("config") or {}).get("configurable") or {}),
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "graph_id": run.graph_id,
        "assistant_id": run.assistant_id,
        "user_id": run.owner or "",
        "langgraph_auth_user": None,
        "langgraph_auth_user_id": run.owner or "",
        "langgraph_auth_permissions": [],
    }


def in_step(config: Settings, context: Settings | None, before: Settings | None = None) -> tuple[Settings, Settings]:
    """The config and the context of an assistant that was given these. If neither says how it is configured, that is
    as it was `before`. Raises `BadRequest` if both do."""
    configurable = config.get("configurable")
    if configurable and context:
        raise BadRequest(_BOTH)
    shared: Settings = configurable or context or {}
    if configurable is None and context is None:
        shared = before or {}
    rest = {key: value for key, value in config.items() if key != "configurable"}
    return {**rest, "configurable": shared} if shared else rest, shared


def of_run(
    config: Settings, context: Settings, base_config: Settings, base_context: Settings
) -> tuple[Settings, Settings]:
    """The config and the context of a run: what it was given, over those of its assistant. Raises `BadRequest` if it
    was given both."""
    configurable: Settings = config.get("configurable") or {}
    configured = {key: value for key, value in configurable.items() if key not in PLACES}
    if configured and context:
        raise BadRequest(_BOTH)
    base: Settings = base_config.get("configurable") or {}
    merged = {**base_config, **config, "configurable": {**base, **configurable, **context}}
    return merged, {**base_context, **configured, **context}
