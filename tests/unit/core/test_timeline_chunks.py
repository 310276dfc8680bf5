"""Chunks of a message merge as LangChain merges them (spec/timeline.md, 4.13)."""

from functools import reduce
from operator import add

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk, HumanMessageChunk, ToolMessageChunk
from langchain_core.utils.json import parse_partial_json as langchain_parse_partial_json

from message_chunks import ai_chunks, words
from threadwire.core.json import native
from threadwire.core.timeline.chunks import first_chunk, is_text, merge_chunk
from threadwire.core.timeline.partial_json import parse_partial_json


def ours(chunks):
    merged = reduce(merge_chunk, chunks[1:], first_chunk(chunks[0]))
    assert merged.pop("type") == "ai"
    return merged


def theirs(chunks):
    merged = native(reduce(add, (AIMessageChunk(**chunk) for chunk in chunks)))
    assert merged.pop("type") == "AIMessageChunk"
    return merged


@given(st.lists(ai_chunks(), min_size=1, max_size=4))
@example(
    [
        native(AIMessageChunk(id="m", content="", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c"}])),
        native(AIMessageChunk(id="m", content="x")),
    ]
)
def test_merging_equals_langchains_own(chunks):
    assert ours(chunks) == theirs(chunks)


@given(st.lists(ai_chunks(), min_size=2, max_size=3))
def test_merging_changes_no_argument(chunks):
    before = native(chunks)
    ours(chunks)
    assert chunks == before


@given(ai_chunks(), words)
def test_a_chunk_of_text_adds_only_text(chunk, text):
    message = first_chunk(chunk)
    added = native(AIMessageChunk(id="m", content=text))
    assert is_text(added)
    if isinstance(message["content"], str):
        assert merge_chunk(message, added) == {**message, "content": message["content"] + text}


@pytest.mark.parametrize(
    "chunks",
    [
        [HumanMessageChunk("a", id="m"), HumanMessageChunk("b", id="m", additional_kwargs={"k": "v"})],
        [
            ToolMessageChunk("a", id="m", tool_call_id="c", artifact={"p": "1"}, status="error"),
            ToolMessageChunk("b", id="m", tool_call_id="c", artifact={"p": "2"}),
        ],
    ],
)
def test_other_messages_merge_as_langchains_do(chunks):
    merged = reduce(merge_chunk, (native(chunk) for chunk in chunks[1:]), first_chunk(native(chunks[0])))
    expected = native(reduce(add, chunks))
    assert {**merged, "type": expected["type"]} == expected


def test_values_of_two_types_do_not_raise():
    first = {"type": "AIMessageChunk", "id": "m", "content": "", "additional_kwargs": {"k": 1, "f": True}}
    second = {**first, "additional_kwargs": {"k": "one", "f": False}}
    assert merge_chunk(first_chunk(first), second)["additional_kwargs"] == {"k": "one", "f": False}


def test_a_name_that_only_one_chunk_has_is_kept():
    first = {"type": "AIMessageChunk", "id": "m", "content": "a", "name": None}
    assert merge_chunk(first_chunk(first), {**first, "name": "writer"})["name"] == "writer"


@given(st.text('{}[]":,\\\na1', max_size=12))
def test_partial_json_is_parsed_as_langchain_does(text):
    def outcome(parse):
        try:
            return parse(text)
        except ValueError:
            return "not JSON"

    assert outcome(parse_partial_json) == outcome(langchain_parse_partial_json)
