"""Lists in a query string, in all the forms the SDKs send them."""

from collections.abc import Collection

import orjson

from threadwire.errors import Invalid
from threadwire.protocols.langgraph.encode import MODES
from threadwire.protocols.langgraph.encode_thread import DEFAULT_THREAD_MODES, THREAD_MODES

INCLUDABLE = frozenset({"ttl"})


def decode_query_modes(given: list[str]) -> frozenset[str] | None:
    return frozenset(decode_query_list(given, "stream_mode", MODES)) or None


def decode_thread_modes(given: list[str]) -> frozenset[str]:
    return frozenset(decode_query_list(given, "stream_mode", THREAD_MODES) or DEFAULT_THREAD_MODES)


def decode_include(given: list[str]) -> frozenset[str]:
    """Separated by commas, as one SDK sends them, or in any other form."""
    apart = [name for each in given for name in ([each] if each.startswith("[") else each.split(","))]
    return frozenset(decode_query_list(apart, "include", INCLUDABLE))


def names_in_query(given: list[str], name: str) -> list[str]:
    """Names in a query: repeated keys (`a&a`), or, as one SDK sends them, one JSON array; an empty one, as another
    sends when nothing is asked for, names nothing."""
    names: list[str] = []
    for each in filter(None, given):
        names.extend(_json_list(each, name) if each.startswith("[") else [each])
    return names


def decode_query_list(given: list[str], name: str, known: Collection[str]) -> list[str]:
    names = names_in_query(given, name)
    if unknown := [each for each in names if each not in known]:
        raise Invalid(f"{name}: {unknown[0][:60]!r} is not one of {', '.join(sorted(known))}")
    return names


def _json_list(text: str, name: str) -> list[str]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"{name}: not a JSON array") from error
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Invalid(f"{name}: not an array of names")
    return value
