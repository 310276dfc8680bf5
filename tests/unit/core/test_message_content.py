"""What is in a message, in any of the forms that models use."""

from typing import Any

import pytest

from threadwire.core.message_content import (
    ToolCall,
    is_conversation,
    message_type,
    reasoning_of,
    text_of,
    tool_calls_of,
    tool_result_text,
)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hello", "Hello"),
        (None, ""),
        ([], ""),
        (["He", {"type": "text", "text": "llo"}], "Hello"),
        ([{"type": "text_delta", "text": "Hi"}, {"type": "image", "url": "u"}], "Hi"),
        ([{"type": "reasoning", "reasoning": "Hmm"}, {"type": "text", "text": "Hi"}], "Hi"),
        ({"a": 1}, '{"a":1}'),
    ],
)
def test_text_of_any_content(content: Any, text: str) -> None:
    assert text_of(content) == text


@pytest.mark.parametrize(
    ("content", "additional", "reasoning"),
    [
        ("Hello", None, ""),
        ("Hello", {"reasoning_content": "Hmm"}, "Hmm"),
        ([{"type": "reasoning", "reasoning": "a"}, {"type": "thinking", "thinking": "b"}], {}, "ab"),
        ([{"type": "reasoning_content", "text": "c"}], None, "c"),
        ([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "d"}, "x"]}], None, "d"),
        ([{"type": "text", "text": "Hi"}, "Hi"], {"reasoning_content": 1}, ""),
        ([{"type": "reasoning"}], None, ""),
    ],
)
def test_reasoning_in_any_form(content: Any, additional: Any, reasoning: str) -> None:
    assert reasoning_of(content, additional) == reasoning


@pytest.mark.parametrize(
    ("name", "shown"), [("AIMessageChunk", "ai"), ("ToolMessageChunk", "tool"), ("human", "human")]
)
def test_a_chunk_has_the_type_of_its_message(name: str, shown: str) -> None:
    assert message_type({"type": name}) == shown


def test_tool_calls_have_ids_and_json_arguments() -> None:
    calls = [{"id": "c", "name": "add", "args": {"a": 1}}, {"id": None, "name": None, "args": None}]

    assert tool_calls_of({"tool_calls": calls}, "m") == [ToolCall("c", "add", '{"a":1}'), ToolCall("m:1", "", "{}")]
    assert tool_calls_of({"tool_calls": None}, "m") == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("done", "done"),
        (["do", {"type": "text", "text": "ne"}], "done"),
        ([{"type": "image", "url": "u"}], '[{"type":"image","url":"u"}]'),
        ({"a": 1}, '{"a":1}'),
    ],
)
def test_a_tool_result_that_is_not_text_is_json(content: Any, text: str) -> None:
    assert tool_result_text(content) == text


def test_a_conversation_is_a_list_of_messages() -> None:
    assert is_conversation([{"type": "human", "content": ""}])
    assert is_conversation([])
    assert not is_conversation([{"type": "human"}])
    assert not is_conversation(["text"])
    assert not is_conversation("text")
