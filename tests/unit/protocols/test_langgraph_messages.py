"""From a model's chunks through the log to the classic stream: both message modes agree with LangChain."""

from functools import reduce
from operator import add
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk, BaseMessageChunk, ChatMessageChunk, message_chunk_to_message

from threadwire.core.entries import Entry
from threadwire.core.ids import RunId, Seq
from threadwire.core.json import loads, native
from threadwire.graphs.stream_normalizer import Normalizer
from threadwire.protocols.langgraph.encode import RunStreamEncoder, StreamOptions

RUN = RunId("01a1e0f0-e5c3-7916-b07a-1eef68159e17")
META = {"langgraph_node": "model"}

texts = st.text("ab ü🙂\n", max_size=4)
blocks = st.fixed_dictionaries({"type": st.just("text"), "text": texts, "index": st.integers(0, 1)})
calls = st.fixed_dictionaries(
    {
        "name": st.none() | st.just("add"),
        "args": st.sampled_from(["", '{"a"', ": 1}", "{}"]),
        "id": st.none() | st.just("call-1"),
        "index": st.integers(0, 1),
        "type": st.just("tool_call_chunk"),
    }
)
usages = st.just({"input_tokens": 1, "output_tokens": 2, "total_tokens": 3})
plain = st.builds(dict, content=texts)
rich = st.fixed_dictionaries(
    {"content": texts | st.lists(blocks, max_size=2)},
    optional={
        "tool_call_chunks": st.lists(calls, max_size=2),
        "usage_metadata": usages,
        "response_metadata": st.dictionaries(st.sampled_from(["model", "finish"]), texts),
        "additional_kwargs": st.dictionaries(st.sampled_from(["reasoning"]), texts),
    },
)
streams = st.lists(plain | rich, min_size=1, max_size=8)


def sent(mode: str, chunks: list[BaseMessageChunk]) -> list[tuple[str, Any]]:
    """Name and data of every message."""
    normalizer, encoder = Normalizer(frozenset(), {}), RunStreamEncoder(StreamOptions(frozenset({mode})))
    messages = []
    for number, chunk in enumerate(chunks, start=1):
        [draft] = normalizer.feed((), "messages", (chunk, META), 0)
        entry = Entry(Seq(number), RUN, 1, 0, (), draft.kind, native(draft.data))
        messages += [(name.decode(), loads(data)) for name, data in encoder.feed(entry)]
    return messages


@settings(max_examples=60, deadline=None)
@given(streams)
def test_tuples_are_the_unchanged_chunks(stream: list[dict[str, Any]]) -> None:
    chunks = [AIMessageChunk(**fields, id="m") for fields in stream]

    assert sent("messages-tuple", chunks) == [("messages", [native(chunk), META]) for chunk in chunks]


@settings(max_examples=60, deadline=None)
@given(streams)
def test_accumulated_message_equals_the_sum_of_its_chunks_in_langchain(stream: list[dict[str, Any]]) -> None:
    chunks = [AIMessageChunk(**fields, id="m") for fields in stream]
    so_far = [reduce(add, chunks[: count + 1]) for count in range(len(chunks))]

    described, *partial = sent("messages", chunks)

    assert described == ("messages/metadata", {"m": {"metadata": META}})
    assert partial == [("messages/partial", [native(message_chunk_to_message(message))]) for message in so_far]


def test_chunks_with_an_unknown_role_are_accumulated() -> None:
    """OpenAI's client creates a ChatMessageChunk for every role that it does not know."""
    chunks = [ChatMessageChunk(content=text, role="model", id="m") for text in ("He", "llo")]

    assert sent("messages", chunks)[-1][1][0]["content"] == "Hello"
