"""How ids, text and JSON are stored in PostgreSQL."""

import json
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadwire.core.json import dumps
from threadwire.storage.abc import contains
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.json_columns import searchable, searchable_value
from threadwire.storage.postgres.text_columns import escaped, unescaped

ANY_TEXT = st.text(st.characters())
NUMBERS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False))
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, st.text())


@given(ANY_TEXT)
def test_every_text_is_stored_as_text_that_postgresql_accepts(text: str) -> None:
    stored = escaped(text)
    stored.encode()
    assert "\0" not in stored
    assert unescaped(stored) == text


@given(ANY_TEXT, ANY_TEXT)
def test_different_texts_stay_different(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)


@pytest.mark.parametrize("text", ["\x010000", "\x01", "\0", "\x01\x01", "\ud800", "a\x010001"])
def test_text_that_looks_escaped_is_restored(text: str) -> None:
    assert unescaped(escaped(text)) == text


@given(ANY_TEXT)
def test_every_id_is_restored_from_its_key(name: str) -> None:
    assert name_of(key_of(name)) == name


def test_the_key_of_a_uuid_is_short() -> None:
    assert len(key_of(str(uuid4()).replace("0", "1"))) == 16
    zeros = "00000000-0000-0000-0000-000000000000"
    assert name_of(key_of(zeros)) == zeros
    assert key_of("A" * 32) != key_of("a" * 32)


@given(PLAIN)
def test_the_copy_of_a_value_has_no_nul(value: Any) -> None:
    assert "\\u0000" not in searchable(dumps({"key": value}).decode())


@given(PLAIN, PLAIN)
def test_copies_are_equal_if_the_values_are(one: Any, other: Any) -> None:
    assert _same_json(searchable(dumps(one).decode()), searchable_value(other)) == contains(one, other)


@pytest.mark.parametrize(
    ("stored", "wanted"), [(1e17, 10**17), (9.223372036854775808e18, 2**63), (2**63, 9.223372036854775808e18), (1.0, 1)]
)
def test_a_float_equals_the_integer_of_the_same_value(stored: float, wanted: float) -> None:
    assert _same_json(searchable(dumps(stored).decode()), searchable_value(wanted))


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 10**30])
def test_a_number_that_is_never_stored_can_be_searched_for(number: float) -> None:
    json.loads(searchable_value({"n": number}))


def _same_json(one: str, other: str) -> bool:
    """Compare as PostgreSQL does: numbers by their digits, and true does not equal 1."""
    parsed = [json.loads(text, parse_float=Decimal, parse_int=Decimal) for text in (one, other)]
    return bool(parsed[0] == parsed[1]) and type(parsed[0]) is type(parsed[1])
