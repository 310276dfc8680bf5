"""JSON serialization that never fails: the values of a graph can be any Python objects."""

import dataclasses
import json
import math
import re
import uuid
from collections import UserDict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel

from arbitrary_values import AlwaysRaises, BrokenModel, Colour, Number, Point, ReturnsSelf, anything
from threadwire.core.json import dumps, loads, loads_exactly, native

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=30,
)


def reject_constant(name):
    raise AssertionError(f"{name} is not JSON")


@given(anything)
def test_every_value_has_a_rendering_that_is_strict_json(value):
    rendered = dumps(value)
    json.loads(rendered.decode("utf-8"), parse_constant=reject_constant)
    loads(rendered)


@given(anything)
def test_native_is_what_a_reader_of_the_json_sees(value):
    seen = native(value)
    assert seen == loads(dumps(value))
    assert native(seen) == seen
    assert loads(dumps(seen)) == seen


@given(plain)
def test_plain_values_round_trip(value):
    assert native(value) == value
    assert list(native(value) if isinstance(value, dict) else ()) == list(value if isinstance(value, dict) else ())


@given(st.text(st.characters(exclude_categories=())))
def test_invalid_text_is_repaired_and_valid_text_is_unchanged(value):
    seen = native(value)
    seen.encode("utf-8")
    valid = all(not 0xD800 <= ord(letter) <= 0xDFFF for letter in value)
    assert (seen == value) == valid
    assert native({value: 1}) == {seen: 1}


@given(st.integers(min_value=2**64) | st.integers(max_value=-(2**63) - 1))
def test_an_integer_wider_than_64_bits_becomes_a_string_with_every_digit(value):
    assert native(value) == str(value)
    assert native([value, {"a": value}]) == [str(value), {"a": str(value)}]


def test_an_integer_too_long_for_decimal_is_written_in_hex():
    assert native(10**5000) == hex(10**5000)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_cannot_represent_is_null(value):
    assert native([value, {"a": value}]) == [None, {"a": None}]
    assert native({"a": value, "b": "\ud800"}) == {"a": None, "b": "?"}


def test_a_cycle_is_cut():
    in_list: list = [1]
    in_list.append(in_list)
    assert native(in_list)[0] == 1
    in_dict: dict = {"a": 1}
    in_dict["self"] = in_dict
    assert native(in_dict)["a"] == 1
    both = {"list": in_list, "dict": in_dict}
    assert set(native(both)) == {"list", "dict"}
    assert isinstance(native(ReturnsSelf()), str)


def test_a_value_seen_twice_is_not_a_cycle():
    shared = {"x": "\ud800"}
    assert native([shared, shared]) == [{"x": "?"}, {"x": "?"}]


@pytest.mark.parametrize("depth", [100, 250, 1_000, 100_000])
def test_deep_nesting_does_not_fail(depth):
    nested: object = "bottom"
    for level in range(depth):
        nested = [nested] if level % 2 else {"down": nested}
    loads(dumps(nested))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({3: "a", None: "b", True: "c", 2.5: "d"}, {"3": "a", "null": "b", "true": "c", "2.5": "d"}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Number(3), 3),
        (Number(10**30), str(10**30)),
        (HTTPStatus.OK, 200),
        ((1, 2), [1, 2]),
        (b"abc", "YWJj"),
        (bytearray(b"abc"), "YWJj"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
        (datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T00:00:00+02:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(1, 2, 3), "01:02:03"),
        (Colour.RED, "red"),
        (Colour.HUGE, str(10**30)),
        (timedelta(days=1, microseconds=500_000), 86400.5),
        (re.compile("a+"), "a+"),
        (re.compile(b"abc"), "YWJj"),
        (deque([1, (2,)]), [1, [2]]),
        (Decimal("1.10"), "1.10"),
        (Fraction(1, 3), "1/3"),
        (Path("/a/b"), "/a/b"),
        (ValueError("boom!"), {"error": "ValueError", "message": "boom!"}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (UserDict({"a": 1}), {"a": 1}),
        (BrokenModel(anything=3), {"anything": 3}),
        (AlwaysRaises(), "<AlwaysRaises>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unsupported_type_has_the_same_rendering_on_the_slow_path(value, expected):
    assert native(value) == expected
    assert native([value, "\ud800", 10**30]) == [expected, "?", str(10**30)]


def test_sets_become_lists():
    assert sorted(native({3, 1, 2})) == [1, 2, 3]
    assert native(frozenset({1})) == [1]


def test_dataclasses_and_models_become_objects():
    @dataclasses.dataclass
    class Pair:
        left: object
        right: object

    class Model(BaseModel):
        inner: object

    assert native(Pair(1, {2})) == {"left": 1, "right": [2]}
    assert native(Model(inner=Pair(1, None))) == {"inner": {"left": 1, "right": None}}


def test_messages_keep_all_their_keys():
    shown = native(AIMessage("hi", id="a"))
    assert shown["type"] == "ai"
    assert {"content", "additional_kwargs", "response_metadata", "name", "id", "tool_calls", "usage_metadata"} <= set(
        shown
    )
    assert native({"messages": [HumanMessage("\ud800", id="h")]})["messages"][0]["content"] == "?"


@given(st.integers(min_value=2**64) | st.integers(max_value=-(2**63) - 1))
def test_json_written_as_text_keeps_every_digit(value):
    parsed = loads_exactly(json.dumps({"n": [value, 1, 2**64 - 1, 1.5], "text": str(value)}))
    assert parsed == {"n": [str(value), 1, 2**64 - 1, 1.5], "text": str(value)}


@pytest.mark.parametrize("text", ["NaN", "[1,", "Infinity" + " " * 30, '{"a": NaN, "b": ' + "9" * 30 + "}"])
def test_text_that_is_not_json_is_rejected(text):
    with pytest.raises(ValueError):
        loads_exactly(text)
