import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadwire.errors import Invalid, TooDeep
from threadwire.http.json_body import MAX_DEPTH, _depth_beyond, parse_json

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.sampled_from('ab"\\[]{}\n'), max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(st.sampled_from('a"\\[{'), max_size=4), inner),
    max_leaves=40,
)


def depth_of(value):
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@given(values)
def test_json_round_trips(value):
    assert parse_json(json.dumps(value).encode()) == value


@given(values, st.integers(MAX_DEPTH - 8, MAX_DEPTH + 8))
def test_only_json_deeper_than_the_limit_is_rejected(value, levels):
    """Brackets in strings and keys do not count, and escaped quotes do not end a string."""
    nested = value
    for level in range(levels):
        nested = [nested, '["{'] if level % 2 else {'a"]}': nested}
    body = json.dumps(nested).encode()
    if depth_of(nested) > MAX_DEPTH:
        with pytest.raises(TooDeep):
            parse_json(body)
    else:
        assert parse_json(body) == nested


def test_many_brackets_side_by_side_are_not_deep():
    assert len(parse_json(b"[" + b",".join([b"[]"] * 100_000) + b"]")) == 100_000


@pytest.mark.parametrize("body", [b"[" * 1_000_000, b'{"a":' * 200_000, b"[" * 101 + b"]" * 101])
def test_depth_is_measured_without_recursion(body):
    with pytest.raises(TooDeep):
        parse_json(body)


def test_string_full_of_brackets_is_not_deep():
    assert parse_json(json.dumps("[" * 1_000_000).encode()) == "[" * 1_000_000


def test_unterminated_string_is_rejected_in_linear_time():
    with pytest.raises(Invalid):
        parse_json(b'"' + b"\\" * 1_000_001 + b"[" * 200)


MEGABYTE = 1_000_000
UNTERMINATED = [
    b'"' + b'\\"' * (MEGABYTE // 2),
    b'"' + b"\\" * (MEGABYTE + 1),
    b'"' * (MEGABYTE + 1),
    b'"\\' * (MEGABYTE // 2),
    b'""\\' * (MEGABYTE // 3) + b'"',
    b'[\\"' * (MEGABYTE // 3),
    b'"\\\n' * (MEGABYTE // 3),
]
"""Strings that do not end, whichever of their quotes is taken as the start."""


@pytest.mark.parametrize("string", UNTERMINATED, ids=range(len(UNTERMINATED)))
def test_unterminated_string_is_scanned_once(string):
    """Scanning again from each of its quotes would take hours."""
    with pytest.raises((Invalid, TooDeep)):
        parse_json(b"[1," * MAX_DEPTH + b"[1]," + string)


def test_depth_matches_a_byte_by_byte_parser_for_all_short_inputs():
    for length in range(8):
        for body in map(bytes, product(b'[]"\\a', repeat=length)):
            assert _depth_beyond(body, 0) == (reference_depth(body) > 0), body


@given(
    st.lists(
        st.sampled_from([b"[[", b"{", b"]", b"}", b'"', b"\\", b'\\"', b"\n"]) | st.binary(max_size=2), max_size=60
    ).map(b"".join)
)
def test_depth_matches_a_byte_by_byte_parser_for_any_bytes(body):
    assert [_depth_beyond(body, limit) for limit in range(8)] == [reference_depth(body) > limit for limit in range(8)]


def reference_depth(body):
    depth = deepest = 0
    in_string = escaped = False
    for byte in body:
        if escaped and byte in b'"\\':
            escaped = False
        elif byte in b"\\":
            escaped = True
        else:
            escaped = False
            if byte in b'"':
                in_string = not in_string
            elif not in_string and byte in b"[{]}":
                depth += 1 if byte in b"[{" else -1
                deepest = max(deepest, depth)
    return deepest


@pytest.mark.parametrize(
    "body", [b"", b"{", b"nope", b"\xff", b'"\\ud800"', b"[1,]", b"NaN", b"Infinity", b"1 2", b"'a'"]
)
def test_invalid_json_is_rejected(body):
    with pytest.raises(Invalid, match=r"^Invalid JSON in request body$"):
        parse_json(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_rejected(body):
    try:
        parse_json(body)
    except Invalid:
        pass


@given(st.integers(min_value=2**64) | st.integers(max_value=-(2**63) - 1))
def test_an_integer_wider_than_64_bits_is_rejected(value):
    for body in (value, [value], {"a": [1, {"b": value}]}, {"9" * 30: value}):
        with pytest.raises(Invalid, match=f"The integer {str(value)[:40]} in the request body does not fit"):
            parse_json(json.dumps(body).encode())


@pytest.mark.parametrize("digits", ["9" * 5000, "-" + "9" * 5000])
def test_an_integer_with_more_digits_than_python_parses_is_rejected(digits):
    with pytest.raises(Invalid):
        parse_json(digits.encode())


@pytest.mark.parametrize("value", ["9" * 30, {"9" * 30: 1}, 0.12345678901234567890123, 1e300, -(2**63), 2**64 - 1])
def test_many_digits_elsewhere_are_accepted(value):
    assert parse_json(json.dumps(value).encode()) == value
