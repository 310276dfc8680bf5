import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadwire.core.entries import START, parse_cursor
from threadwire.errors import InvalidCursor


@given(st.integers(0, 10**18 - 1))
def test_a_decimal_number_is_a_position(number):
    assert parse_cursor(str(number)) == number


@pytest.mark.parametrize("text", ["0", "-1", "00", "000000000000000000"])
def test_the_start_has_several_spellings(text):
    assert parse_cursor(text) == START


def test_a_position_has_at_most_18_digits():
    assert parse_cursor("9" * 18) == 10**18 - 1
    with pytest.raises(InvalidCursor):
        parse_cursor("9" * 19)
    with pytest.raises(InvalidCursor):
        parse_cursor("0" * 19)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "+1", "-0", "-2", "1.0", "1e3", "0x1", "1_000", "\u0661", "²", "NaN", "1\n"]
)
def test_anything_else_is_rejected(text):
    with pytest.raises(InvalidCursor):
        parse_cursor(text)


@given(st.text())
def test_any_text_is_parsed_or_rejected_with_a_short_message(text):
    try:
        result = parse_cursor(text)
    except InvalidCursor as error:
        result = error.message
    assert result in range(10**18) if isinstance(result, int) else result.startswith("Invalid Last-Event-ID: ")
    assert len(str(result)) < 600
