"""Messages and their metadata can be reconstructed from their entries (spec/log.md, 6.1 - 6.4a)."""

from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langgraph.graph import START, StateGraph
from recordings import AT, HELLO, Recording, exact, is_root_copy, normalizer, rebuilt

from threadwire.core.entries import Kind
from threadwire.core.json import native
from threadwire.graphs.registry import GraphRegistry

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

# -- real streams -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph_id", ["chat", "tools", "nested", "everything"])
async def test_messages_can_be_reconstructed(graph_id: str, registry: GraphRegistry) -> None:
    """6.1 - 6.3"""
    recording = await Recording().run_graph(registry, graph_id, HELLO)

    entries = recording.of(Kind.MESSAGES)
    streamed = [entry for entry in entries if not is_root_copy(entry)]
    messages = [message for message, entry in zip(rebuilt(entries), entries, strict=True) if not is_root_copy(entry)]
    assert len(messages) == len(streamed)
    assert [exact(each) for each in messages] == [exact(each) for each in recording.chunks]


async def test_token_is_stored_as_its_text_only(registry: GraphRegistry) -> None:
    """6.2, 6.4"""
    recording = await Recording().run_graph(registry, "chat", HELLO)

    declared, *tokens, last = (entry.data for entry in recording.of(Kind.MESSAGES))
    assert declared["chunk"]["content"] == "You"
    assert tokens == [[0, " said:"], [0, " hello"], [0, " there"]]
    assert set(last["patch"]) == {"content", "usage_metadata", "chunk_position"}


# -- messages of a subgraph, at the root ------------------------------------------------------------------------------


async def test_message_streamed_in_a_subgraph_is_recorded_whole_when_its_node_returns_it(
    registry: GraphRegistry,
) -> None:
    """6.4a"""
    recording = await Recording().run_graph(registry, "nested", HELLO)

    [whole] = [entry for entry in recording.of(Kind.MESSAGES) if is_root_copy(entry)]
    update = next(entry for entry in recording.of(Kind.UPDATES) if not entry.ns and "inner" in entry.data["value"])
    assert recording.entries.index(whole) == recording.entries.index(update) - 1
    assert (whole.ns, whole.data["message"]["content"]) == ((), "You said: hello there")
    assert whole.data["meta"]["langgraph_node"] == "inner"
    streamed = {entry.data["chunk"]["id"] for entry in recording.of(Kind.MESSAGES) if "chunk" in entry.data}
    assert streamed == {whole.data["message"]["id"]}


async def test_metadata_of_a_root_message_equals_langgraphs(registry: GraphRegistry) -> None:
    class Talk(TypedDict):
        messages: list[Any]

    def inner(state: Talk) -> Talk:
        return {"messages": [AIMessage("hello", id="m")]}

    graph = StateGraph(Talk).add_node("inner", inner).add_edge(START, "inner").compile()
    flat = Recording()
    await flat.run(graph, {"messages": []})
    nested = await Recording().run_graph(registry, "nested", HELLO)

    [streamed] = flat.of(Kind.MESSAGES)
    [whole] = [entry for entry in nested.of(Kind.MESSAGES) if is_root_copy(entry)]
    ours = {key for key in whole.data["meta"] if key.startswith("langgraph_")}
    assert ours == {key for key in streamed.data["meta"] if key.startswith("langgraph_")}
    assert whole.data["meta"]["langgraph_step"] == 2  # `before` was the first
    task = next(entry.data for entry in nested.of(Kind.TASK) if entry.data["name"] == "inner" and not entry.ns)
    assert whole.data["meta"]["langgraph_triggers"] == task["triggers"]
    assert whole.data["meta"]["langgraph_checkpoint_ns"] == f"inner:{task['id']}"


@pytest.mark.parametrize("graph_id", ["chat", "tools"])
async def test_message_streamed_at_the_root_is_not_repeated(graph_id: str, registry: GraphRegistry) -> None:
    """6.4a"""
    recording = await Recording().run_graph(registry, graph_id, HELLO)
    assert not any(is_root_copy(entry) for entry in recording.of(Kind.MESSAGES))


def test_only_messages_streamed_in_a_subgraph_are_repeated_and_only_once() -> None:
    """6.4a"""
    fed = normalizer()
    fed.feed(("inner:1",), "messages", (AIMessageChunk("streamed", id="below"), {}), AT)
    update = {"inner": {"messages": [AIMessage("streamed", id="below"), HumanMessage("given", id="other")]}}

    first, second = fed.feed((), "updates", update, AT), fed.feed((), "updates", update, AT)

    assert [entry.data["message"]["id"] for entry in first if entry.kind == Kind.MESSAGES] == ["below"]
    assert [entry.kind for entry in second] == [Kind.UPDATES]


# -- properties -------------------------------------------------------------------------------------------------------

texts = st.text("ab ü🙂\n", max_size=4)
details = st.dictionaries(st.sampled_from(["model", "finish", "probs"]), st.integers(0, 2) | texts | st.lists(texts))
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
usages = st.builds(
    lambda read, written: {"input_tokens": read, "output_tokens": written, "total_tokens": read + written},
    st.integers(0, 3),
    st.integers(0, 3),
)
plain = st.builds(dict, content=texts)
rich = st.fixed_dictionaries(
    {"content": texts | st.lists(texts | blocks, max_size=2)},
    optional={
        "tool_call_chunks": st.lists(calls, max_size=2),
        "usage_metadata": st.none() | usages,
        "response_metadata": details,
        "additional_kwargs": details,
        "name": st.none() | st.just("agent"),
        "chunk_position": st.none() | st.just("last"),
    },
)
streams = st.lists(st.tuples(st.integers(0, 2), plain | rich), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(streams)
def test_arbitrary_chunks_can_be_reconstructed(stream: list[tuple[int, dict[str, Any]]]) -> None:
    """6.1 - 6.3, for interleaved messages"""
    fed, entries, streamed = normalizer(), [], []
    metas = [{"langgraph_node": f"model-{number}"} for number in range(3)]
    for number, fields in stream:
        chunk = AIMessageChunk(**fields, id=f"m-{number}")
        entries += fed.feed((), "messages", (chunk, metas[number]), AT)
        streamed.append((native(chunk), metas[number]))

    assert [exact(each) for each in rebuilt(entries)] == [exact(each) for each in streamed]


@settings(max_examples=50, deadline=None)
@given(st.lists(texts, min_size=2, max_size=8), details, st.lists(calls, max_size=1))
def test_chunks_that_differ_only_in_text_are_stored_as_their_text(
    pieces: list[str], metadata: dict[str, Any], called: list[Any]
) -> None:
    """6.2, 6.4"""
    fed, meta = normalizer(), {"langgraph_node": "model"}
    entries = [
        entry
        for text in pieces
        for entry in fed.feed(
            (),
            "messages",
            (AIMessageChunk(text, id="m", response_metadata=metadata, tool_call_chunks=called), meta),
            AT,
        )
    ]
    assert [entry.data for entry in entries[1:]] == [[0, text] for text in pieces[1:]]


def test_message_with_new_metadata_is_declared_again() -> None:
    """6.1"""
    fed, chunk = normalizer(), AIMessageChunk("hello", id="m")
    [first] = fed.feed((), "messages", (chunk, {"langgraph_step": 1}), AT)
    [again] = fed.feed((), "messages", (chunk, {"langgraph_step": 2}), AT)

    assert (first.data["i"], again.data["i"]) == (0, 1)
    assert again.data["meta"] == {"langgraph_step": 2}


def test_whole_message_is_stored_as_a_message() -> None:
    """6.1"""
    message = AIMessage("hello", id="m")
    [entry] = normalizer().feed((), "messages", (message, {"langgraph_node": "model"}), AT)
    assert entry.data == {"i": 0, "message": native(message), "meta": {"langgraph_node": "model"}}
