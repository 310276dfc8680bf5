"""Paths into a thread: their syntax, and the values at them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadwire.errors import Invalid
from threadwire.protocols.langgraph.decode.extract import Path, follow_path, parse_extract, parse_path

THREAD = {"values": {"messages": [{"content": "a"}, {"content": "b"}], "n": 0, "a b": {"$": 1}}, "metadata": {}}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("values", ("values",)),
        ("values.messages[0].content", ("values", "messages", 0, "content")),
        ("values.messages[-1]", ("values", "messages", -1)),
        ("values[0][1]", ("values", 0, 1)),
        ("metadata.a b.$", ("metadata", "a b", "$")),
        ("config.ключ", ("config", "ключ")),
        ("interrupts.0", ("interrupts", "0")),
    ],
)
def test_path_is_parsed_into_steps(text: str, path: Path) -> None:
    assert parse_path("it", text) == path


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        ".values",
        "values.",
        "values..x",
        "values[",
        "values[]",
        "values[x]",
        "values]",
        "values[1]x",
        "values.x[1.0]",
        "values" + ".a" * 500,
    ],
)
def test_invalid_path_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        parse_path("it", text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("values.messages[0].content", "a"),
        ("values.messages[-2].content", "a"),
        ("values.messages[2]", None),
        ("values.messages[-3]", None),
        ("values.n", 0),
        ("values.n.deeper", None),
        ("values.n[0]", None),
        ("values.a b.$", 1),
        ("metadata", {}),
        ("config.x", None),
    ],
)
def test_following_a_path(text: str, value: object) -> None:
    assert follow_path(parse_path("it", text), THREAD) == value


@given(st.text())
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    for candidate in (text, f"values.{text}", f"values[{text}]"):
        try:
            path = parse_path("it", candidate)
        except Invalid:
            continue
        follow_path(path, THREAD)


@pytest.mark.parametrize("alias", ["", "a b", "a-b", "ü", "a\n"])
def test_alias_must_be_an_identifier(alias: str) -> None:
    assert parse_extract({"a_1": "values"}) == {"a_1": ("values",)}
    with pytest.raises(Invalid, match="valid identifier"):
        parse_extract({alias: "values"})
