"""A message so far is the sum of its chunks in LangChain."""

from functools import reduce
from operator import add
from typing import Any

from chunk_streams import chunk_fields, entries_of
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk, BaseMessageChunk, ChatMessageChunk, message_chunk_to_message

from threadwire.core.accumulated_message import AccumulatedMessage
from threadwire.core.json import native
from threadwire.core.message_fold import MessageFold, StreamedMessage

streams = st.lists(chunk_fields, min_size=1, max_size=8)


def accumulated(chunks: list[BaseMessageChunk]) -> list[Any]:
    """The message after each chunk."""
    fold, so_far, values = MessageFold(StreamedMessage), None, []
    for entry in entries_of(chunks):
        message = fold.feed(entry)
        assert message is not None
        if so_far is None:
            so_far = AccumulatedMessage(message.chunk())
        else:
            so_far.add(message)
        values.append(native(so_far.value))
    return values


@settings(max_examples=100, deadline=None)
@given(streams)
def test_message_so_far_equals_the_sum_of_its_chunks_in_langchain(stream: list[dict[str, Any]]) -> None:
    chunks: list[BaseMessageChunk] = [AIMessageChunk(**fields, id="m") for fields in stream]
    sums = [reduce(add, chunks[: count + 1]) for count in range(len(chunks))]

    assert accumulated(chunks) == [native(message_chunk_to_message(message)) for message in sums]


def test_chunks_with_an_unknown_role_are_accumulated() -> None:
    """OpenAI's client creates a ChatMessageChunk for every role that it does not know."""
    chunks: list[BaseMessageChunk] = [ChatMessageChunk(content=text, role="model", id="m") for text in ("He", "llo")]

    assert accumulated(chunks)[-1]["content"] == "Hello"
