"""JSON as stored in the database: text for reading, and a `jsonb` copy where filters apply.

The text is what was stored, to the byte. `jsonb` cannot represent the character NUL, and it compares the digits of
numbers, although a large float is printed with fewer digits than the equal integer has. So the copy is rewritten where
necessary. A filter is rewritten in the same way, so that `@>` finds the same rows as `threadwire.storage.abc.contains`.
"""

import json as standard_json
import math
import re
from typing import Any

import orjson

from threadwire.core import json
from threadwire.storage.postgres.text_columns import escaped

# A control character, an exponent, or enough digits for an integer that floats are rounded to.
_REWRITTEN = re.compile(r"\\u000[01]|[0-9][eE]|[0-9]{16}")
_NOT_A_JSON_NUMBER = "\x01number"
"""Stands for infinity and NaN. No stored value contains it."""


def to_text(value: Any) -> str:
    return json.dumps(value).decode()


def to_text_or_null(value: Any) -> str | None:
    return None if value is None else to_text(value)


def from_text(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def searchable(text: str) -> str:
    """Return what to bind as the `jsonb` copy of a JSON text."""
    return searchable_value(orjson.loads(text)) if needs_rewriting(text) else text


def needs_rewriting(text: str) -> bool:
    return _REWRITTEN.search(text) is not None


def searchable_value(value: Any) -> str:
    """Return what to bind as `jsonb` for a value of a filter. Text that UTF-8 cannot encode and numbers that JSON
    cannot represent are equal to nothing that is stored."""
    return standard_json.dumps(_rewritten(value), allow_nan=False)


def _rewritten(value: Any) -> Any:
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {escaped(key): _rewritten(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rewritten(item) for item in value]
    if isinstance(value, float):
        return _number(value)
    return value


def _number(value: float) -> int | float | str:
    if not math.isfinite(value):
        return _NOT_A_JSON_NUMBER
    return int(value) if value.is_integer() else value
