"""Which rows a caller may see and change: the filters that handlers of LangGraph's `Auth` return. Numbers in
parentheses refer to spec/access.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import dumps, json_equal, loads
from threadwire.errors import InvalidAccessFilter

MAX_NESTING = 2
"""How deep `$or` and `$and` can be nested, as on the stock server."""


@dataclass(frozen=True, slots=True)
class Equals:
    """The metadata has an equal value under the key (1.2)."""

    key: str
    value: Json

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        return self.key in metadata and json_equal(metadata[self.key], self.value)


@dataclass(frozen=True, slots=True)
class Contains:
    """The metadata has a list under the key that contains each of the elements (1.3)."""

    key: str
    elements: tuple[Json, ...]

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        found = metadata.get(self.key)
        return isinstance(found, list) and all(
            any(json_equal(each, wanted) for each in found) for wanted in self.elements
        )


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the filters matches (1.4)."""

    filters: "tuple[AccessFilter, ...]"

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        return any(each.matches(metadata) for each in self.filters)


Condition = Equals | Contains | AnyOf


@dataclass(frozen=True, slots=True)
class AccessFilter:
    """All conditions must hold (1.1). Without conditions, it matches everything and is false in a boolean context."""

    conditions: tuple[Condition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        return all(condition.matches(metadata) for condition in self.conditions)


EVERYTHING = AccessFilter()


def parse_access_filter(raw: Mapping[str, Any]) -> AccessFilter:
    """Parse the object that a handler returned. Raises `InvalidAccessFilter` (1.6)."""
    return _parse(dumps(raw))


@lru_cache(maxsize=1024)
def _parse(encoded: bytes) -> AccessFilter:
    """Cached, because a handler usually returns the same filter for every request of a user."""
    return _filter(loads(encoded), nesting=0)


def _filter(raw: Json, nesting: int) -> AccessFilter:
    if not isinstance(raw, dict):
        raise InvalidAccessFilter(f"An access filter must be an object, not {_name(raw)}.")
    conditions = (condition for key, value in raw.items() for condition in _conditions(key, value, nesting))
    return AccessFilter(tuple(conditions))


def _conditions(key: str, value: Json, nesting: int) -> tuple[Condition, ...]:
    if key == "$and":
        return tuple(condition for each in _group(key, value, nesting) for condition in each.conditions)
    if key == "$or":
        return (AnyOf(_group(key, value, nesting)),)
    if key.startswith("$"):
        raise InvalidAccessFilter(f"`{key}` is not an operator of access filters. Use `$or` or `$and`.")
    return (_condition(key, value),)


def _group(operator: str, value: Json, nesting: int) -> tuple[AccessFilter, ...]:
    if nesting == MAX_NESTING:
        raise InvalidAccessFilter(f"`$or` and `$and` can be nested at most {MAX_NESTING} levels deep.")
    if not isinstance(value, list) or len(value) < 2:
        raise InvalidAccessFilter(f"`{operator}` of an access filter must be a list of at least two filters.")
    filters = tuple(_filter(each, nesting + 1) for each in value)
    if not all(filters):
        raise InvalidAccessFilter(f"A filter in `{operator}` is empty. It would match everything.")
    return filters


def _condition(key: str, value: Json) -> Condition:
    if not isinstance(value, dict):
        return Equals(key, value)
    if len(value) != 1:
        raise InvalidAccessFilter(f"The condition on `{key}` must have exactly one operator: `$eq` or `$contains`.")
    [(operator, operand)] = value.items()
    if operator == "$eq":
        return Equals(key, operand)
    if operator == "$contains":
        return Contains(key, tuple(operand) if isinstance(operand, list) else (operand,))
    raise InvalidAccessFilter(f"`{operator}` in the condition on `{key}` is not an operator. Use `$eq` or `$contains`.")


def _name(value: Json) -> str:
    return "null" if value is None else f"a value of type `{type(value).__name__}`"
