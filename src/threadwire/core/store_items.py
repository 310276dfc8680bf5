"""The items of the store, the operations on them, and how filters match. Defined once, so that every driver gives the
same results."""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.json import json_equal

Labels = tuple[str, ...]
"""A namespace: labels from the outermost inwards. A label is any text."""

Reference = TypeVar("Reference", bound=Hashable)

ANY = "*"
"""In a prefix or suffix, matches any one label."""

MINUTE = 60_000
MAX_MINUTES = 100 * 366 * 24 * 60
"""A hundred years: effectively forever, and still a number that every database can add to a date."""


@dataclass(frozen=True, slots=True)
class Item:
    namespace: Labels
    key: str
    value: dict[str, Any]
    created_at: int
    updated_at: int
    owner: str | None = None
    """The user who created the item. It does not restrict which users can read it."""
    score: float | None = None
    """In a semantic search, the similarity of the item, at most 1."""


@dataclass(frozen=True, slots=True)
class PutItem:
    """Store a value. It replaces an existing item and its vectors; only `created_at` and `owner` stay."""

    namespace: Labels
    key: str
    value: dict[str, Any]
    ttl: int | None = None
    """The item expires this many milliseconds after the last put or refreshing read."""
    vectors: tuple[bytes, ...] = ()
    """The embeddings for semantic search; see `threadwire.core.vectors`."""
    owner: str | None = None
    access: AccessFilter = EVERYTHING


@dataclass(frozen=True, slots=True)
class DropItem:
    namespace: Labels
    key: str
    access: AccessFilter = EVERYTHING


@dataclass(frozen=True, slots=True)
class GetItem:
    namespace: Labels
    key: str
    refresh: bool = True
    """Whether the read restarts the item's TTL."""
    access: AccessFilter = EVERYTHING


@dataclass(frozen=True, slots=True)
class SearchItems:
    """Items at or below `prefix` that match the filter, the most recently put first.

    With `near`, the items that have vectors come first, ordered by their nearest vector; the others follow in the usual
    order.
    """

    prefix: Labels = ()
    filter: dict[str, Any] = field(default_factory=dict)
    limit: int = 10
    offset: int = 0
    near: bytes | None = None
    refresh: bool = True
    access: AccessFilter = EVERYTHING


@dataclass(frozen=True, slots=True)
class ListNamespaces:
    """Namespaces that contain an item, start with every prefix and end with every suffix, truncated to `max_depth` and
    sorted."""

    prefixes: tuple[Labels, ...] = ()
    suffixes: tuple[Labels, ...] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0
    access: AccessFilter = EVERYTHING


ItemOperation = PutItem | DropItem | GetItem | SearchItems | ListNamespaces
ItemResult = Item | list[Item] | list[Labels] | None


def ttl_milliseconds(minutes: float) -> int:
    """Convert a time to live from minutes, LangGraph's unit. Raise `ValueError` if it is not positive and finite."""
    if not 0 < minutes < math.inf:
        raise ValueError("A time to live must be a positive number of minutes.")
    return round(min(minutes, MAX_MINUTES) * MINUTE)


def select_namespaces(namespaces: Iterable[Labels], wanted: ListNamespaces) -> list[Labels]:
    found = {
        namespace[: wanted.max_depth]
        for namespace in namespaces
        if all(_starts_with(namespace, path) for path in wanted.prefixes)
        and all(_starts_with(namespace[::-1], path[::-1]) for path in wanted.suffixes)
    }
    return sorted(found)[wanted.offset : wanted.offset + wanted.limit]


def _starts_with(namespace: Labels, path: Labels) -> bool:
    return len(namespace) >= len(path) and all(
        wanted in (ANY, label) for label, wanted in zip(namespace, path, strict=False)
    )


def rank_by_score(found: Iterable[tuple[Reference, float | None]]) -> list[tuple[Reference, float | None]]:
    """Remove duplicates and sort: the best score first, and those without a score last, in their original order."""
    best: dict[Reference, float | None] = {}
    for reference, score in found:
        known = best.setdefault(reference, score)
        if score is not None and (known is None or score > known):
            best[reference] = score
    scored = [(reference, score) for reference, score in best.items() if score is not None]
    scored.sort(key=lambda pair: pair[1], reverse=True)
    return [*scored, *((reference, None) for reference, score in best.items() if score is None)]


# -- filters ----------------------------------------------------------------------------------------------------------

_ORDER = {
    "$gt": lambda one, other: one > other,
    "$gte": lambda one, other: one >= other,
    "$lt": lambda one, other: one < other,
    "$lte": lambda one, other: one <= other,
}


def check_filter(wanted: Any) -> None:
    """Raise `ValueError` if `wanted`, what a filter requires of one key, is invalid, whether or not any item would be
    compared with it.

    An object with a key that starts with `$` is a set of conditions. The keys of the filter itself are always keys of
    the value."""
    if isinstance(wanted, dict):
        if _is_conditions(wanted):
            for operator, operand in wanted.items():
                _check_condition(operator, operand)
        else:
            for each in wanted.values():
                check_filter(each)
    elif isinstance(wanted, list):
        for each in wanted:
            check_filter(each)


def _check_condition(operator: str, operand: Any) -> None:
    if operator in ("$eq", "$ne"):
        return
    if operator not in _ORDER:
        raise ValueError(f"Unsupported operator: {operator}")
    if not isinstance(operand, (str, int, float)):
        raise ValueError(f"{operator} requires a number or a string")


def matches_filter(value: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a value matches a filter that has been checked. Keys are compared literally; a missing key is null."""
    return all(_matches(value.get(key), each) for key, each in wanted.items())


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if _is_conditions(wanted):
            return all(_holds(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, dict) and all(_matches(value.get(key), each) for key, each in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_matches(one, other) for one, other in zip(value, wanted, strict=True))
        )
    return json_equal(value, wanted)


def _is_conditions(wanted: dict[str, Any]) -> bool:
    return any(key.startswith("$") for key in wanted)


def _holds(value: Any, operator: str, operand: Any) -> bool:
    if operator == "$eq":
        return json_equal(value, operand)
    if operator == "$ne":
        return not json_equal(value, operand)
    pair = _comparable(value, operand)
    return pair is not None and _ORDER[operator](*pair)


def _comparable(one: Any, other: Any) -> tuple[float, float] | tuple[str, str] | None:
    """Return both as numbers if both can be parsed as numbers, as strings if both are strings, otherwise None."""
    try:
        return float(one), float(other)
    except (TypeError, ValueError, OverflowError):
        return (one, other) if isinstance(one, str) and isinstance(other, str) else None
