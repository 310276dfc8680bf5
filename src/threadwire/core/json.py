"""JSON serialization that never fails: every value a graph produces has a rendering (docs/reference/encoding.md).

orjson is tried first, because nearly every value is plain. Only what orjson rejects is traversed in Python.
"""

import base64
import dataclasses
import json
import math
import re
from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

import orjson
from pydantic import BaseModel

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_ARRAYS = (list, tuple, set, frozenset, deque)
MAX_DEPTH = 200
"""Levels of nesting that are rendered; deeper values are replaced by the name of their type."""


def dumps(value: Any) -> bytes:
    """Serialize any Python value to JSON. Never raises."""
    try:
        return orjson.dumps(value, default=_render, option=_OPTIONS)
    except Exception:
        return orjson.dumps(_total(value, 0, set()))


def encoded(value: Any) -> Any:
    """Encode a value now. `dumps` inserts the result wherever it is part of another value."""
    return orjson.Fragment(dumps(value))


def loads(data: bytes | str) -> Any:
    return orjson.loads(data)


def loads_exactly(text: str) -> Any:
    """Parse JSON that a client or a model wrote as text. An integer wider than 64 bits becomes a string, as in `dumps`;
    orjson would return a float."""
    parsed = orjson.loads(text)
    return json.loads(text, parse_int=_integer) if may_have_wide_integers(text.encode()) else parsed


def may_have_wide_integers(data: bytes) -> bool:
    """Whether there are enough digits in a row for an integer that does not fit into 64 bits."""
    return _WIDE in data.translate(_DIGITS_AS_ZEROS)


_WIDE = b"0" * len(str(2**63))
_DIGITS_AS_ZEROS = bytes(ord("0") if chr(byte).isascii() and chr(byte).isdigit() else ord(" ") for byte in range(256))


def fits_64_bits(digits: str) -> bool:
    """Whether an integer of these digits is in the range that orjson supports."""
    return len(digits) <= len(str(-(2**64))) and -(2**63) <= int(digits) < 2**64


def _integer(digits: str) -> int | str:
    return int(digits) if fits_64_bits(digits) else digits


def native(value: Any) -> Any:
    """Return the value as a reader of its JSON sees it: only dict, list, str, int, float, bool and None."""
    return orjson.loads(dumps(value))


def json_equal(one: Any, other: Any) -> bool:
    """Compare two plain values as JSON: 1 equals 1.0, and true does not equal 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(json_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(json_equal(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def _render(value: Any) -> Any:
    """Convert a value that orjson does not support, one level deep."""
    if isinstance(value, BaseModel):
        return _model(value)
    if hasattr(value, "_asdict"):  # a NamedTuple
        return value._asdict()
    if isinstance(value, _ARRAYS):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, re.Pattern):
        return value.pattern
    if isinstance(value, BaseException):
        return {"error": type(value).__name__, "message": str(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for method in ("to_dict", "model_dump", "dict"):
        if not isinstance(value, type) and callable(getattr(value, method, None)):
            try:
                return getattr(value, method)()
            except Exception:
                break
    if isinstance(value, int):  # wider than 64 bits: a string keeps every digit
        return _number(int(value))
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _model(value: BaseModel) -> Any:
    try:
        return value.model_dump()
    except Exception:
        return dict(value.__dict__)


def _total(value: Any, depth: int, above: set[int]) -> Any:
    """The slow path: traverse everything, cut cycles and excessive depth, and repair invalid text. A value that raises
    when inspected is replaced by the name of its type. The result is always plain."""
    try:
        return _walked(value, depth, above)
    except Exception:
        return f"<{type(value).__name__}>"


def _walked(value: Any, depth: int, above: set[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _repaired(value)
    if isinstance(value, int) and not isinstance(value, Enum):
        return _number(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth > MAX_DEPTH or id(value) in above:
        return f"<{type(value).__name__}>"
    above = above | {id(value)}
    if isinstance(value, Mapping):
        return {key_text(key): _total(item, depth + 1, above) for key, item in list(value.items())}
    if isinstance(value, _ARRAYS) and not hasattr(value, "_asdict"):
        return [_total(item, depth + 1, above) for item in list(value)]
    try:
        return orjson.loads(orjson.dumps(value, option=_OPTIONS))  # dates, UUIDs, enums, numpy
    except (TypeError, ValueError):
        return _total(_render(value), depth + 1, above)


def _repaired(text: str) -> str:
    return str.encode(text, "utf-8", "replace").decode()


def _number(value: int) -> int | str:
    if -(2**63) <= value < 2**64:
        return value
    try:
        return str(value)
    except ValueError:  # Python limits the decimal digits of an int
        return hex(value)


def key_text(key: Any) -> str:
    """Return the text of an object key."""
    if isinstance(key, str):
        return _repaired(key)
    try:
        (text,) = orjson.loads(orjson.dumps({key: None}, option=_OPTIONS))
    except (TypeError, ValueError):
        text = _total(_render(key), 0, set())
    return text if isinstance(text, str) else _repaired(str(text))
