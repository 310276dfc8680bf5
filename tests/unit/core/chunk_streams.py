"""Streams of a model's chunks, for property tests of the folds of messages."""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk, BaseMessageChunk

from threadwire.core.entries import Entry, Kind, Namespace
from threadwire.core.ids import RunId, Seq
from threadwire.core.json import native
from threadwire.graphs.stream_normalizer import Normalizer

RUN = RunId("01a1e0f0-e5c3-7916-b07a-1eef68159e17")
META = {"langgraph_node": "model", "langgraph_checkpoint_ns": "model:task-1"}

texts = st.text("ab ü🙂\n", max_size=4)
text_blocks = st.fixed_dictionaries({"type": st.just("text"), "text": texts, "index": st.integers(0, 1)})
reasoning_blocks = st.fixed_dictionaries({"type": st.just("reasoning"), "reasoning": texts, "index": st.just(2)})
call_chunks = st.fixed_dictionaries(
    {
        "name": st.none() | st.just("add"),
        "args": st.sampled_from(["", '{"a"', ": 1}", "{}"]),
        "id": st.none() | st.sampled_from(["call-1", "call-2"]),
        "index": st.integers(0, 1),
        "type": st.just("tool_call_chunk"),
    }
)
plain_chunks = st.builds(dict, content=texts)
rich_chunks = st.fixed_dictionaries(
    {"content": texts | st.lists(text_blocks | reasoning_blocks, max_size=2)},
    optional={
        "tool_call_chunks": st.lists(call_chunks, max_size=2),
        "usage_metadata": st.just({"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
        "response_metadata": st.dictionaries(st.sampled_from(["model", "finish"]), texts),
        "additional_kwargs": st.dictionaries(st.just("reasoning_content"), texts),
    },
)
chunk_fields = plain_chunks | rich_chunks


def interleaved(fields: st.SearchStrategy[dict[str, Any]] = chunk_fields) -> st.SearchStrategy[list[BaseMessageChunk]]:
    """The chunks of up to three messages that are streamed at the same time."""
    chunk = st.builds(
        lambda message_id, fields: AIMessageChunk(**fields, id=message_id), st.sampled_from("mno"), fields
    )
    return st.lists(chunk, min_size=1, max_size=10)


def entries_of(chunks: Iterable[BaseMessageChunk], ns: Namespace = ()) -> list[Entry]:
    """The entries that an attempt writes for these chunks."""
    normalizer = Normalizer(frozenset(), {})
    drafts = [draft for chunk in chunks for draft in normalizer.feed(ns, "messages", (chunk, META), 0)]
    return [entry(draft.data, number, ns) for number, draft in enumerate(drafts, start=1)]


def entry(data: Any, number: int = 1, ns: Namespace = ()) -> Entry:
    return Entry(Seq(number), RUN, 1, 0, ns, Kind.MESSAGES, native(data))
