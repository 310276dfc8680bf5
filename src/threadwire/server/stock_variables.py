"""The environment variables of the stock server: those that are honoured as settings, and those that have no effect.

Variables that LangGraph, LangChain and the LangSmith client read themselves, such as LANGSMITH_TRACING, are not listed:
they work as usual.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from threadwire.environment import PREFIX
from threadwire.errors import ConfigError

GRAPH_CONFIGS = "LANGGRAPH_CONFIG"
"""A JSON object: the config of each graph's default assistant, by graph id."""


def _storage(text: str) -> str:
    return "memory" if text.lower() in ("1", "true", "yes") else "sqlite"


_AS_SETTING: dict[str, tuple[str, Callable[[str], Any]]] = {
    "N_JOBS_PER_WORKER": ("concurrency", str),
    "BG_JOB_SHUTDOWN_GRACE_PERIOD_SECS": ("drain_seconds", str),
    "LANGGRAPH_DISABLE_FILE_PERSISTENCE": ("storage", _storage),
}

_OF_CONTAINERS: dict[str, tuple[str, frozenset[str]]] = {
    "DATABASE_URI": ("storage", frozenset({"postgres", "postgresql"})),
    "REDIS_URI": ("redis", frozenset({"redis", "rediss", "unix"})),
}
"""The variables of the licensed container, each with its setting and the schemes that it may have. A project may use
the same names for databases of its own, so only the environment of the process counts, never the project's `.env`, and
an address of any other kind is left alone."""

IGNORED = frozenset(
    {
        "BG_JOB_HEARTBEAT",
        "BG_JOB_ISOLATED_LOOPS",
        "BG_JOB_MAX_RETRIES",
        "BG_JOB_TIMEOUT_SECS",
        "LANGGRAPH_AES_JSON_KEYS",
        "LANGGRAPH_AES_KEY",
        "LANGGRAPH_ALLOW_BLOCKING",
        "LANGGRAPH_AUTH",
        "LANGGRAPH_AUTH_TYPE",
        "LANGGRAPH_CHECKPOINTER",
        "LANGGRAPH_CHECKPOINTER_POSTGRES_POOL_MIN_SIZE",
        "LANGGRAPH_CHECKPOINTER_POSTGRES_POOL_TIMEOUT_SECONDS",
        "LANGGRAPH_CLOUD_LICENSE_KEY",
        "LANGGRAPH_ENCRYPTION",
        "LANGGRAPH_HTTP",
        "LANGGRAPH_JS_READY_TIMEOUT_SECS",
        "LANGGRAPH_LOGS_ENABLED",
        "LANGGRAPH_LOGS_ENDPOINT",
        "LANGGRAPH_METRICS_ENABLED",
        "LANGGRAPH_METRICS_ENDPOINT",
        "LANGGRAPH_METRICS_EXPORT_INTERVAL_MS",
        "LANGGRAPH_MOUNT_PREFIX",
        "LANGGRAPH_NO_VERSION_CHECK",
        "LANGGRAPH_POSTGRES_EXTENSIONS",
        "LANGGRAPH_POSTGRES_POOL_MAX_SIZE",
        "LANGGRAPH_PRIORITY",
        "LANGGRAPH_RUNTIME_EDITION",
        "LANGGRAPH_SERVER_HOST",
        "LANGGRAPH_STORE",
        "LANGGRAPH_STORE_BACKEND",
        "LANGGRAPH_THREAD_TTL",
        "LANGGRAPH_UI",
        "LANGGRAPH_UI_BUNDLER",
        "LANGGRAPH_UI_CONFIG",
        "LANGGRAPH_WEBHOOKS",
        "LANGSERVE_GRAPHS",
        "LANGSMITH_AUTH_ENDPOINT",
        "LANGSMITH_AUTH_VERIFY_TENANT_ID",
        "LANGSMITH_CONTROL_PLANE_API_KEY",
        "LANGSMITH_DISABLE_SAAS_RUNS",
        "LANGSMITH_HOST_PROJECT_ID",
        "LANGSMITH_HOST_REVISION_ID",
        "LANGSMITH_LANGGRAPH_API_REVISION",
        "LANGSMITH_LANGGRAPH_API_VARIANT",
        "LANGSMITH_LANGGRAPH_API_VERSION",
        "LANGSMITH_LANGGRAPH_GIT_REF_SHA",
        "LANGSMITH_LICENSE_REQUIRED_CLAIMS",
    }
)
"""Variables of the stock server that have no effect here."""

HONOURED = frozenset({GRAPH_CONFIGS, *_AS_SETTING, *_OF_CONTAINERS})


def settings_of(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings that are set by variables of the stock server. A variable of ours takes precedence."""
    return {
        setting: read(environment[name])
        for name, (setting, read) in _AS_SETTING.items()
        if environment.get(name) and PREFIX + setting.upper() not in environment
    }


def addresses_of(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings that are set by variables of the licensed container. A variable of ours takes precedence."""
    return {
        setting: environment[name]
        for name, (setting, schemes) in _OF_CONTAINERS.items()
        if environment.get(name, "").partition("://")[0] in schemes and PREFIX + setting.upper() not in environment
    }


def variable_of(setting: str) -> str:
    """The variable of the stock server that sets this setting."""
    known = {**_OF_CONTAINERS, **_AS_SETTING}
    return next(name for name, (chosen, _) in known.items() if chosen == setting)


def ignored_variables(environment: Mapping[str, str]) -> list[str]:
    return sorted(name for name in IGNORED if environment.get(name))


def graph_configs(environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Read LANGGRAPH_CONFIG. Raises `ConfigError`."""
    if not (text := environment.get(GRAPH_CONFIGS)):
        return {}
    try:
        configs = json.loads(text)
    except ValueError:
        raise ConfigError(f"{GRAPH_CONFIGS} must be a JSON object that maps graph ids to configs") from None
    if not isinstance(configs, dict) or not all(isinstance(config, dict) for config in configs.values()):
        raise ConfigError(f"{GRAPH_CONFIGS} must be a JSON object that maps graph ids to configs")
    return configs
