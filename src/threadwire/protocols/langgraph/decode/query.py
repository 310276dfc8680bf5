"""Lists in a query string, in all the formats that SDKs send."""

from collections.abc import Collection

import orjson

from threadwire.errors import Invalid
from threadwire.protocols.langgraph.encode import MODES
from threadwire.protocols.langgraph.encode_thread import DEFAULT_THREAD_MODES, THREAD_MODES

INCLUDABLE = frozenset({"ttl"})


def decode_query_modes(values: list[str]) -> frozenset[str] | None:
    return frozenset(decode_query_list(values, "stream_mode", MODES)) or None


def decode_thread_modes(values: list[str]) -> frozenset[str]:
    return frozenset(decode_query_list(values, "stream_mode", THREAD_MODES) or DEFAULT_THREAD_MODES)


def decode_include(values: list[str]) -> frozenset[str]:
    """Names separated by commas, as one SDK sends them, or in the formats of `names_in_query`."""
    split = [name for each in values for name in ([each] if each.startswith("[") else each.split(","))]
    return frozenset(decode_query_list(split, "include", INCLUDABLE))


def names_in_query(values: list[str], name: str) -> list[str]:
    """Names in a query: repeated keys, or one JSON array, which one SDK sends. Empty values, which another SDK sends,
    are ignored."""
    names: list[str] = []
    for each in filter(None, values):
        names.extend(_json_list(each, name) if each.startswith("[") else [each])
    return names


def decode_query_list(values: list[str], name: str, known: Collection[str]) -> list[str]:
    names = names_in_query(values, name)
    if unknown := [each for each in names if each not in known]:
        raise Invalid(f"{name}: {unknown[0][:60]!r} is not one of {', '.join(sorted(known))}")
    return names


def _json_list(text: str, name: str) -> list[str]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"{name}: must be a JSON array") from error
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Invalid(f"{name}: must be an array of strings")
    return value
