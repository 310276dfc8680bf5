"""Metadata keys that break a driver that interpolates them into a query instead of comparing them."""

from typing import Any

import pytest

HOSTILE_KEYS = (
    "",
    " ",
    "a.b",
    "$.a",
    "$",
    "$[0]",
    "a[0]",
    "[*]",
    "'",
    '"',
    '"."',
    '\\"',
    "\\",
    "'; DROP TABLE thread; --",
    "' OR 1=1 --",
    "%",
    "_",
    "?",
    ":key",
    "{}",
    "\u0000",
    "a\u0000b",
    "\n\r\t",
    "ключ \U0001f511 \u202e",
    "a" * 10_000,
)

with_every_hostile_key = pytest.mark.parametrize("key", HOSTILE_KEYS, ids=lambda key: ascii(key)[:24])

INNOCENT: tuple[dict[str, Any], ...] = ({"a": {"b": 1}}, {"a": 1}, {"a": [1]}, {"b": 1}, {})
"""Metadata of other rows, which a key that is misread as a path or pattern might match."""

NEVER_STORED: list[dict[str, Any]] = [
    {"\ud800": 1},  # a lone surrogate, which JSON lets a client send
    {"a": "\udfff"},
    {"a": {"b": {"c": {"d": 1}}}},
    {"a": 10**30},
    {"a": 1e300},
    {"a": [[[]]]},
    {"k" * 10_000: {"v" * 10_000: None}},
]
"""Queries that match nothing in the suites; a driver must return no rows rather than fail."""
