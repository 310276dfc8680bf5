"""The configuration of a graph has two names: `context`, and the older `config.configurable`.

A value given under one name is also set under the other, so that graphs can read either and clients can send either.
"""

from typing import Any

from threadwire.core.records import Run
from threadwire.core.users import User
from threadwire.errors import BadRequest

Config = dict[str, Any]

LOCATION_KEYS = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "cron_id"})
"""Keys of `configurable` that name a thread, a checkpoint or a cron and do not configure the graph."""

AUTH_KEYS = frozenset({"langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions"})
"""Keys of `configurable` that only the server sets."""

_BOTH = (
    "Cannot specify both configurable and context. Prefer setting context alone. Context was introduced in LangGraph"
    " 0.6.0 and is the long term planned replacement for configurable."
)


def base_checkpoint_of(config: Config) -> str | None:
    """Return the checkpoint that a run starts from, or None for the newest. LangGraph honours it only at the root."""
    configurable: Config = config.get("configurable") or {}
    if configurable.get("checkpoint_ns") or not (named := configurable.get("checkpoint_id")):
        return None
    return str(named)


def configurable_of(run: Run) -> Config:
    """Return the `configurable` of a run: the keys from the request, and those that describe the run itself.

    A request may also set `user_id`, for projects that have no authentication but store data per user. The
    authenticated user is in `langgraph_auth_user_id`, which a request cannot set."""
    given: Config = (run.kwargs.get("config") or {}).get("configurable") or {}
    user = user_of(run)
    return {
        **given,
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "graph_id": run.graph_id,
        "assistant_id": run.assistant_id,
        "user_id": (given.get("user_id") if user is None else None) or run.owner or "",
        "langgraph_auth_user": user,
        "langgraph_auth_user_id": run.owner or "",
        "langgraph_auth_permissions": [] if user is None else user.permissions,
    }


def with_user(configurable: Config, user: User | None) -> Config:
    """Return `configurable` with the user of a new run. What the client sent under these keys is dropped."""
    given = {key: value for key, value in configurable.items() if key not in AUTH_KEYS}
    if user is None:
        return given
    return {
        **given,
        "langgraph_auth_user": user,
        "langgraph_auth_user_id": user.owner,
        "langgraph_auth_permissions": user.permissions,
    }


def user_of(run: Run) -> User | None:
    """The user that created a run, and that the run acts as; None if the server had no auth at that time."""
    stored = ((run.kwargs.get("config") or {}).get("configurable") or {}).get("langgraph_auth_user")
    user = User(stored) if isinstance(stored, dict) and "identity" in stored else None
    return user if user is not None and user.owner == run.owner else None


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
