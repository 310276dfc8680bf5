"""Chunks of streamed messages, for tests that hypothesis feeds."""

from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk

from threadwire.core.json import native

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
