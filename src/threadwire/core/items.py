"""What the store keeps, what can be asked of it, and when an item meets a filter. Said once, so that every driver
answers alike."""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Labels = tuple[str, ...]
"""A namespace: labels from the outermost in. Any text is a label."""

Reference = TypeVar("Reference", bound=Hashable)

ANY = "*"
"""In what namespaces are matched with: any one label."""

MINUTE = 60_000
MAX_MINUTES = 100 * 366 * 24 * 60
"""A time to live of a hundred years is for ever, and still a number that every database can add to a date."""


@dataclass(frozen=True, slots=True)
class Item:
    namespace: Labels
    key: str
    value: dict[str, Any]
    created_at: int
    updated_at: int
    owner: str | None = None
    """Who put it first. An item is not hidden from others by it."""
    score: float | None = None
    """In a search by meaning: how near the item is, 1 at most."""


@dataclass(frozen=True, slots=True)
class PutItem:
    """Keep a value. What was there under the name is replaced, its vectors included; only since when stays."""

    namespace: Labels
    key: str
    value: dict[str, Any]
    ttl: int | None = None
    """Milliseconds after the last put, or read that refreshes, when the item expires."""
    vectors: tuple[bytes, ...] = ()
    """What it is found by in a search by meaning; see `threadwire.core.vectors`."""
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class DropItem:
    namespace: Labels
    key: str


@dataclass(frozen=True, slots=True)
class GetItem:
    namespace: Labels
    key: str
    refresh: bool = True
    """Whether reading it puts off its expiry."""


@dataclass(frozen=True, slots=True)
class SearchItems:
    """Items in `prefix` and whatever is under it that meet the filter, the one put last first.

    With `near`, those that have vectors come first, by their nearest one; then the others as before.
    """

    prefix: Labels = ()
    filter: dict[str, Any] = field(default_factory=dict)
    limit: int = 10
    offset: int = 0
    near: bytes | None = None
    refresh: bool = True


@dataclass(frozen=True, slots=True)
class ListNamespaces:
    """Namespaces that hold an item, begin with every prefix and end with every suffix, cut to `max_depth`, in order."""

    prefixes: tuple[Labels, ...] = ()
    suffixes: tuple[Labels, ...] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


ItemOperation = PutItem | DropItem | GetItem | SearchItems | ListNamespaces
ItemResult = Item | list[Item] | list[Labels] | None


def milliseconds(minutes: float) -> int:
    """A time to live, which LangGraph counts in minutes. Raises `ValueError` for what is none."""
    if not 0 < minutes < math.inf:
        raise ValueError("A time to live is a number of minutes above 0.")
    return round(min(minutes, MAX_MINUTES) * MINUTE)


def listed(namespaces: Iterable[Labels], wanted: ListNamespaces) -> list[Labels]:
    found = {
        namespace[: wanted.max_depth]
        for namespace in namespaces
        if all(_begins(namespace, path) for path in wanted.prefixes)
        and all(_begins(namespace[::-1], path[::-1]) for path in wanted.suffixes)
    }
    return sorted(found)[wanted.offset : wanted.offset + wanted.limit]


def _begins(namespace: Labels, path: Labels) -> bool:
    return len(namespace) >= len(path) and all(
        wanted in (ANY, label) for label, wanted in zip(namespace, path, strict=False)
    )


def ranked(found: Iterable[tuple[Reference, float | None]]) -> list[tuple[Reference, float | None]]:
    """Each thing found once: by its best score, and after them those that have none, in the order they came."""
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
    """Raise `ValueError` for a condition that means nothing, before it is known whether there is anything to meet it.

    An object with a key that begins with `$` is a set of conditions; only at the top, where keys are the value's own,
    it is not."""
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
        raise ValueError(f"{operator} compares with a number or a text")


def satisfies(value: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a value meets a filter that has been checked. Keys are only ever compared; a missing one is null."""
    return all(_meets(value.get(key), each) for key, each in wanted.items())


def _meets(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if _is_conditions(wanted):
            return all(_holds(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, dict) and all(_meets(value.get(key), each) for key, each in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_meets(one, other) for one, other in zip(value, wanted, strict=True))
        )
    return _equal(value, wanted)


def _is_conditions(wanted: dict[str, Any]) -> bool:
    return any(key.startswith("$") for key in wanted)


def _holds(value: Any, operator: str, operand: Any) -> bool:
    if operator == "$eq":
        return _equal(value, operand)
    if operator == "$ne":
        return not _equal(value, operand)
    pair = _comparable(value, operand)
    return pair is not None and _ORDER[operator](*pair)


def _equal(one: Any, other: Any) -> bool:
    """As JSON: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_equal(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def _comparable(one: Any, other: Any) -> tuple[float, float] | tuple[str, str] | None:
    """As numbers if both can be read as one, as texts if both are; else there is no order between them."""
    try:
        return float(one), float(other)
    except (TypeError, ValueError, OverflowError):
        return (one, other) if isinstance(one, str) and isinstance(other, str) else None
