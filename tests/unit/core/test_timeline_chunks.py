"""Chunks of a message merge as LangChain merges them (spec/timeline.md, 4.13)."""

from functools import reduce
from operator import add

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk, HumanMessageChunk, ToolMessageChunk
from langchain_core.utils.json import parse_partial_json as langchain_parse_partial_json

from threadwire.core.json import native
from threadwire.core.timeline.chunks import first_chunk, is_text, merge_chunk
from threadwire.core.timeline.partial_json import parse_partial_json

words = st.text('ab {}[]":,\\\n1é', max_size=6)
maybe = lambda strategy: st.none() | strategy  # noqa: E731
indexes = st.integers(0, 2) | st.sampled_from(["lc_0", "lc_1"])
ids = st.sampled_from([None, "", "x", "y"])

text_blocks = st.fixed_dictionaries({"type": st.just("text"), "text": words}, optional={"index": indexes, "id": ids})
reasoning_blocks = st.fixed_dictionaries({"type": st.just("reasoning"), "reasoning": words, "index": indexes})
call_blocks = st.fixed_dictionaries(
    {"type": st.just("tool_call_chunk"), "id": ids, "name": maybe(words), "args": maybe(words), "index": indexes},
    optional={"extras": st.just({"signature": "s"})},
)
server_call_blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["server_tool_call_chunk", "server_tool_call"]), "args": st.sampled_from(["{}", "{", ""])}
)
odd_blocks = st.fixed_dictionaries(
    {"type": st.just("non_standard"), "value": st.just({"type": "t", "part": "p"}), "index": indexes}
)
blocks = words | text_blocks | reasoning_blocks | call_blocks | server_call_blocks | odd_blocks
contents = words | st.lists(blocks, max_size=3)

call_chunks = st.fixed_dictionaries(
    {"name": maybe(words), "args": maybe(words), "id": ids, "index": maybe(st.integers(0, 2))}
).map(lambda chunk: {**chunk, "type": "tool_call_chunk"})

tokens = st.integers(0, 9)
usages = st.fixed_dictionaries(
    {"input_tokens": tokens, "output_tokens": tokens, "total_tokens": tokens},
    optional={"output_token_details": st.dictionaries(st.sampled_from(["reasoning", "audio"]), tokens, max_size=2)},
)

# Each key has one type, because LangChain raises for two.
kwargs = st.fixed_dictionaries(
    {},
    optional={
        "text": maybe(words),
        "count": maybe(tokens),
        "index": tokens,
        "id": st.sampled_from(["i", "j"]),
        "model_provider": st.sampled_from(["openai", "other"]),
        "created": tokens,
        "flag": st.just(True),
        "nested": st.dictionaries(st.sampled_from(["p", "q"]), words, max_size=2),
        "listed": st.lists(st.fixed_dictionaries({"index": tokens, "arguments": words}) | words, max_size=2),
    },
)
versions = st.sampled_from([{}, {"output_version": "v1"}])


@st.composite
def ai_chunks(draw):
    return native(
        AIMessageChunk(
            id="m",
            content=draw(contents),
            tool_call_chunks=draw(st.lists(call_chunks, max_size=2)),
            usage_metadata=draw(maybe(usages)),
            additional_kwargs=draw(kwargs),
            response_metadata={**draw(kwargs), **draw(versions)},
            chunk_position=draw(st.sampled_from([None, None, "last"])),
        )
    )


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
