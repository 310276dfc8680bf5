"""Lists in a query string, in all the forms the SDKs send them."""

import orjson

from threadwire.errors import Invalid
from threadwire.protocols.langgraph.encode import MODES


def decode_query_modes(given: list[str]) -> frozenset[str] | None:
    modes = decode_query_list(given, "stream_mode")
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise Invalid(f"stream_mode: {unknown[0][:60]!r} is not one of {', '.join(sorted(MODES))}")
    return frozenset(modes) or None


def decode_query_list(given: list[str], name: str) -> list[str]:
    """Names in a query: repeated keys (`a&a`), or, as one SDK sends them, one JSON array; an empty one, as another
    sends when nothing is asked for, names nothing."""
    names: list[str] = []
    for each in filter(None, given):
        names.extend(_json_list(each, name) if each.startswith("[") else [each])
    return names


def _json_list(text: str, name: str) -> list[str]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"{name}: not a JSON array") from error
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Invalid(f"{name}: not an array of names")
    return value
