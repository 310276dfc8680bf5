"""The `store` and `checkpointer` sections of langgraph.json."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from threadwire.core.records import ExpiryStrategy
from threadwire.core.store_items import MAX_MINUTES
from threadwire.errors import ConfigError
from threadwire.graphs.code_reference import CodeReference, kind_of, split_source

DEFAULT_SWEEP_MINUTES = 5.0

AllowedTypes = Literal[True] | tuple[tuple[str, ...], ...] | None
"""Types that may be constructed from stored data: any (True), those listed, or only those known to be safe (None)."""


@dataclass(frozen=True)
class IndexConfig:
    """Semantic search over items. `embed` is the project's own code, or a string "provider:model"."""

    dims: int
    embed: CodeReference | str
    fields: tuple[str, ...] = ("$",)


@dataclass(frozen=True)
class TtlConfig:
    """When store items expire. All durations are in minutes, as in LangGraph."""

    default: float | None = None
    refresh_on_read: bool = True
    sweep_every: float = DEFAULT_SWEEP_MINUTES


@dataclass(frozen=True)
class ThreadTtlConfig:
    """The default TTL of threads, what happens when it expires, and how often expired threads are swept."""

    default: float | None = None
    strategy: ExpiryStrategy = "delete"
    sweep_every: float = DEFAULT_SWEEP_MINUTES
    sweep_limit: int = 1000


@dataclass(frozen=True)
class StoreConfig:
    source: CodeReference | None = None
    """A user-provided store; the other fields configure the built-in one."""
    index: IndexConfig | None = None
    ttl: TtlConfig = field(default_factory=TtlConfig)


@dataclass(frozen=True)
class CheckpointerConfig:
    source: CodeReference | None = None
    """A user-provided checkpointer; `json_modules` and `msgpack_modules` configure the built-in one."""
    json_modules: AllowedTypes = None
    msgpack_modules: AllowedTypes = None
    ttl: ThreadTtlConfig = field(default_factory=ThreadTtlConfig)


def read_store(value: object) -> StoreConfig:
    section = _object('"store"', value)
    source = _source('"store"."path"', section.get("path"))
    if source is not None and (extra := {"index", "ttl"} & section.keys()):
        raise ConfigError(f'"store"."{min(extra)}" applies to the built-in store only. Remove it, or remove "path".')
    return StoreConfig(source, _index(section.get("index")), _ttl(section.get("ttl")))


def read_checkpointer(value: object) -> CheckpointerConfig:
    section = _object('"checkpointer"', value)
    source = _source('"checkpointer"."path"', section.get("path"))
    serde = _object('"checkpointer"."serde"', section.get("serde"))
    if source is not None and serde:
        raise ConfigError(
            '"checkpointer"."serde" applies to the built-in checkpointer only. '
            'Pass a serializer to the one at "path" instead.'
        )
    if serde.get("pickle_fallback"):
        raise ConfigError(
            '"checkpointer"."serde"."pickle_fallback" is not supported: loading a pickle can run arbitrary code. '
            'List your types in "allowed_msgpack_modules" instead.'
        )
    return CheckpointerConfig(
        source,
        json_modules=_modules("allowed_json_modules", serde),
        msgpack_modules=_modules("allowed_msgpack_modules", serde),
        ttl=_thread_ttl(section.get("ttl")),
    )


def _thread_ttl(value: object) -> ThreadTtlConfig:
    where, defaults = '"checkpointer"."ttl"', ThreadTtlConfig()
    section = _object(where, value)
    strategy, limit = section.get("strategy", defaults.strategy), section.get("sweep_limit", defaults.sweep_limit)
    if strategy not in get_args(ExpiryStrategy):
        raise ConfigError(f'{where}: "strategy" must be "delete" or "keep_latest".')
    if type(limit) is not int or limit < 1:
        raise ConfigError(f'{where}: "sweep_limit" must be a positive number of threads.')
    sweep = _minutes(where, section, "sweep_interval_minutes")
    return ThreadTtlConfig(_minutes(where, section, "default_ttl"), strategy, sweep or defaults.sweep_every, limit)


def _index(value: object) -> IndexConfig | None:
    if value is None:
        return None
    where = '"store"."index"'
    section = _object(where, value)
    dims = section.get("dims")
    if type(dims) is not int or dims < 1:
        raise ConfigError(f'{where}: "dims" must be the number of dimensions of the embeddings, e.g. 1536.')
    return IndexConfig(dims, _embed(section.get("embed")), _fields(section.get("fields")))


def _embed(value: object) -> CodeReference | str:
    where = '"store"."index"."embed"'
    if not isinstance(value, str) or ":" not in value:
        raise ConfigError(f'{where} must be "provider:model" or "./file.py:function".')
    location, _, attribute = value.rpartition(":")
    source = CodeReference(location.strip(), attribute.strip())
    # A provider name contains no dot, and a model name is rarely a Python identifier.
    if source.is_file or ("." in source.location and source.attribute.isidentifier()):
        return CodeReference(*split_source(where, value))
    return value


def _fields(value: object) -> tuple[str, ...]:
    if value is None:
        return IndexConfig.fields
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise ConfigError('"store"."index"."fields" must be a list of paths, e.g. ["text", "facts[*].about"].')
    return tuple(value)


def _ttl(value: object) -> TtlConfig:
    where = '"store"."ttl"'
    section = _object(where, value)
    refresh = section.get("refresh_on_read", True)
    if not isinstance(refresh, bool):
        raise ConfigError(f'{where}: "refresh_on_read" must be true or false, not {kind_of(refresh)}.')
    sweep = _minutes(where, section, "sweep_interval_minutes")
    return TtlConfig(_minutes(where, section, "default_ttl"), refresh, sweep or DEFAULT_SWEEP_MINUTES)


def _minutes(where: str, section: Mapping[str, Any], key: str) -> float | None:
    minutes = section.get(key)
    if minutes is None:
        return None
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 0 < minutes < math.inf:
        raise ConfigError(f'{where}: "{key}" must be a positive number of minutes.')
    return float(min(minutes, MAX_MINUTES))


def _modules(key: str, section: Mapping[str, Any]) -> AllowedTypes:
    value = section.get(key)
    if value is None or value is True:
        return value
    if not isinstance(value, list) or not all(_is_type_path(each) for each in value):
        raise ConfigError(
            f'"checkpointer"."serde"."{key}" must be true or a list like [["my_agent.models", "State"]], '
            f"not {kind_of(value)}."
        )
    return tuple(tuple(each) for each in value)


def _is_type_path(value: object) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(each, str) for each in value)


def _source(where: str, path: object) -> CodeReference | None:
    return None if path is None else CodeReference(*split_source(where, path))


def _object(where: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be an object, not {kind_of(value)}.")
    return value
