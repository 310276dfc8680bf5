"""Parses the forms that interrupts and widgets have in streams and logs (spec/timeline.md, 2.4 and 2.6)."""

import json
from collections.abc import Iterator
from decimal import Decimal

from threadwire.core.entries import Json, Namespace
from threadwire.core.timeline.operations import Custom, Interrupt, Operation, Ui, UiRemove


def custom_operations(value: Json) -> Iterator[Operation]:
    """The operations for what a node wrote to the custom stream: widgets, removals, or application data."""
    for item in value if isinstance(value, list) else [value]:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "ui":
            yield Ui(item)
        elif kind == "remove-ui" and isinstance(item.get("id"), str):
            yield UiRemove(item["id"])
        else:
            yield Custom(item)


def interrupts_of(items: Json, ns: Namespace) -> tuple[Interrupt, ...]:
    """The interrupts of an `__interrupt__` value, whatever its form. Items that are not objects are left out."""
    listed = items if isinstance(items, list) else [items]
    return tuple(_interrupt_of(item, ns) for item in listed if isinstance(item, dict))


def _interrupt_of(item: dict[str, Json], ns: Namespace) -> Interrupt:
    value = item.get("value")
    named = (item.get(key) for key in ("id", "interrupt_id", "interruptId"))
    interrupt_id = next((each for each in named if isinstance(each, str) and each), None)
    schema = item.get("response_schema")
    if schema is None:
        schema = item.get("responseSchema")
    inner = tuple(map(str, item["namespace"])) if isinstance(item.get("namespace"), list) else None
    if interrupt_id is None:
        interrupt_id = f"anon:{fnv1a_64(canonical([value, list(ns if inner is None else inner)])):016x}"
    return Interrupt(interrupt_id, value, schema, inner)


def fnv1a_64(data: bytes) -> int:
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return digest


def canonical(value: Json) -> bytes:
    """Canonical JSON (RFC 8785)."""
    return _written(value).encode("utf-8", "surrogatepass")


def _written(value: Json) -> str:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_written(key)}:{_written(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return _number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """A number as JavaScript writes it."""
    digits = repr(value)
    if 1e-6 <= abs(value) < 1e21 or value == 0:
        digits = format(Decimal(digits), "f")
        return digits.removesuffix(".0") if value else "0"
    mantissa, _, exponent = digits.partition("e")
    return f"{mantissa}e{int(exponent):+d}"
