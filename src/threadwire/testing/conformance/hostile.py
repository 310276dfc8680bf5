"""Metadata keys that would break a driver which puts them into a query instead of comparing them."""

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
"""What other rows hold, and a key that was read as a path or a pattern might hit."""

NEVER_STORED: list[dict[str, Any]] = [
    {"\ud800": 1},  # half a character: JSON lets a client send one
    {"a": "\udfff"},
    {"a": {"b": {"c": {"d": 1}}}},
    {"a": 10**30},
    {"a": 1e300},
    {"a": [[[]]]},
    {"k" * 10_000: {"v" * 10_000: None}},
]
"""Queries that match nothing in the suites and must say so rather than fail."""
