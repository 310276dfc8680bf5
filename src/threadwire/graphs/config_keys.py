"""The keys of `langgraph.json`, and warnings about unknown and unsupported ones."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from threadwire.graphs.http_config import Cors, HeaderChoice, HttpConfig

Known = Mapping[str, Any]
"""Known keys. The value is a table of nested keys, or None if nested keys are not checked."""

_GRAPH: Known = dict.fromkeys(("path", "description", "stream_models", "interrupt_outcome", "raw_events", "chatkit"))

_SECTIONS: Known = {
    "http": {
        **dict.fromkeys(HttpConfig.model_fields),
        "cors": Cors.model_fields,
        "configurable_headers": HeaderChoice.model_fields,
        "logging_headers": HeaderChoice.model_fields,
    },
    "store": {
        "path": None,
        "index": dict.fromkeys(("dims", "embed", "fields")),
        "ttl": dict.fromkeys(("default_ttl", "refresh_on_read", "sweep_interval_minutes")),
    },
    "checkpointer": {
        "path": None,
        "ttl": dict.fromkeys(("strategy", "default_ttl", "sweep_interval_minutes", "sweep_limit")),
        "serde": dict.fromkeys(("allowed_json_modules", "allowed_msgpack_modules", "pickle_fallback")),
    },
    "webhooks": {
        **dict.fromkeys(("env_prefix", "headers")),
        "url": dict.fromkeys(
            ("require_https", "allowed_domains", "allowed_ports", "max_url_length", "disable_loopback")
        ),
    },
    "auth": {
        **dict.fromkeys(("path", "disable_studio_auth")),
        "openapi": dict.fromkeys(("securitySchemes", "security", "paths")),
        "cache": dict.fromkeys(("cache_keys", "ttl_seconds", "max_size")),
    },
    "encryption": {"path": None},
    "priority": {"path": None},
}

_TOP: Known = dict.fromkeys(("graphs", "dependencies", "env", "ui", "ui_config", *_SECTIONS))


def unknown_keys(content: Mapping[str, Any]) -> list[str]:
    """Return a one-line warning for each unknown key in a known section, each section whose name resembles a known one,
    and each unsupported section.

    Other unknown sections belong to other tools.
    """
    lines = [_line((key,), _TOP) for key in content if key not in _TOP and _nearest(key, _TOP)]
    if content.get("priority"):
        lines.append('"priority" is not supported and is ignored: runs start in the order in which they are due.')
    for name, known in _SECTIONS.items():
        lines += _unknown(content.get(name), known, (name,))
    graphs = content.get("graphs")
    for graph_id, graph in graphs.items() if isinstance(graphs, dict) else ():
        lines += _unknown(graph, _GRAPH, ("graphs", graph_id))
    return lines


def _unknown(value: object, known: Known, path: tuple[str, ...]) -> Iterator[str]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key not in known:
            yield _line((*path, key), known)
        elif isinstance(known[key], Mapping):
            yield from _unknown(inner, known[key], (*path, key))


def _line(path: tuple[str, ...], known: Known) -> str:
    quoted = ".".join(f'"{key}"' for key in path)
    nearest = _nearest(path[-1], known)
    return f"{quoted} is not a known key and is ignored." + (f' Did you mean "{nearest}"?' if nearest else "")


def _nearest(key: str, known: Known) -> str | None:
    return next(iter(get_close_matches(key, known, n=1, cutoff=0.75)), None)
