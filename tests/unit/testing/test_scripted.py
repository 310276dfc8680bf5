import json
import time

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

from threadwire.testing.scripted import ScriptedChatModel

pytestmark = pytest.mark.anyio

TEXT = "  Two  words,\nthen a line.\n"
CALL = {"name": "look_up", "args": {"city": "Zürich", "days": [1, 2, 3]}, "id": "call_1", "type": "tool_call"}


def model_with(reply: AIMessage, **settings) -> ScriptedChatModel:
    return ScriptedChatModel(reply=lambda conversation: reply, **settings)


def joined(chunks: list[AIMessageChunk]) -> AIMessageChunk:
    return sum(chunks[1:], chunks[0])


async def test_the_reply_function_receives_the_conversation():
    model = ScriptedChatModel(reply=lambda conversation: AIMessage(conversation[-1].text.upper()))
    assert (await model.ainvoke([HumanMessage("one"), HumanMessage("two")])).text == "TWO"
    assert model.invoke("three").text == "THREE"


async def test_text_streams_word_by_word_and_nothing_is_lost():
    chunks = [chunk async for chunk in model_with(AIMessage(TEXT)).astream("hi")]
    assert [chunk.text for chunk in chunks] == ["  Two", "  words,", "\nthen", " a", " line.", "\n", ""]
    assert joined(chunks).text == TEXT


def test_streaming_works_without_an_event_loop():
    chunks = list(model_with(AIMessage(TEXT, tool_calls=[CALL])).stream("hi"))
    assert joined(chunks).text == TEXT
    assert joined(chunks).tool_calls == [CALL]


async def test_tool_calls_arrive_in_pieces():
    second = {**CALL, "id": "call_2", "args": {}}
    chunks = [chunk async for chunk in model_with(AIMessage("", tool_calls=[CALL, second])).astream("hi")]
    pieces = [chunk.tool_call_chunks[0] for chunk in chunks if chunk.tool_call_chunks]
    first = [piece for piece in pieces if piece["index"] == 0]
    assert (first[0]["name"], first[0]["id"], first[0]["args"]) == ("look_up", "call_1", "")
    assert len(first) > 3
    assert json.loads("".join(piece["args"] for piece in first)) == CALL["args"]
    assert joined(chunks).tool_calls == [CALL, second]


async def test_the_last_chunk_carries_the_usage():
    chunks = [chunk async for chunk in model_with(AIMessage("three short words")).astream("one two")]
    assert [chunk.usage_metadata is not None for chunk in chunks] == [False, False, False, True]
    assert chunks[-1].usage_metadata == {"input_tokens": 2, "output_tokens": 3, "total_tokens": 5}
    assert chunks[-1].chunk_position == "last"


async def test_a_reply_that_is_not_streamed_has_the_same_usage():
    reply = await model_with(AIMessage("three short words")).ainvoke("one two")
    assert reply.usage_metadata == {"input_tokens": 2, "output_tokens": 3, "total_tokens": 5}


async def test_the_usage_of_the_reply_takes_precedence():
    usage = {"input_tokens": 70, "output_tokens": 7, "total_tokens": 77}
    model = model_with(AIMessage("hello", usage_metadata=usage))
    assert (await model.ainvoke("hi")).usage_metadata == usage
    assert joined([chunk async for chunk in model.astream("hi")]).usage_metadata == usage


async def test_the_id_and_metadata_of_the_reply_are_preserved():
    model = model_with(AIMessage("hello there", id="m1", response_metadata={"model": "script"}))
    whole = joined([chunk async for chunk in model.astream("hi")])
    assert (whole.id, whole.response_metadata["model"]) == ("m1", "script")


async def test_content_blocks_are_streamed_as_blocks():
    blocks = [{"type": "text", "text": "hello"}]
    whole = joined([chunk async for chunk in model_with(AIMessage(blocks)).astream("hi")])
    assert whole.content == [{**blocks[0], "index": 0}]


async def test_tools_can_be_bound():
    @tool
    def look_up(city: str) -> str:
        """Find a city."""
        return city

    bound = model_with(AIMessage("", tool_calls=[CALL])).bind_tools([look_up])
    assert bound.kwargs["tools"][0]["function"]["name"] == "look_up"
    assert (await bound.ainvoke("hi")).tool_calls == [CALL]


async def test_a_graph_streams_the_reply_word_by_word():
    model = model_with(AIMessage("hello you there"))

    async def answer(state: MessagesState):
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile()
    parts = [part async for part, _ in graph.astream({"messages": "hi"}, stream_mode="messages")]
    assert [part.text for part in parts] == ["hello", " you", " there", ""]


async def test_every_chunk_is_delayed():
    model = model_with(AIMessage("one two three"), delay=0.01)
    started = time.perf_counter()
    chunks = [chunk async for chunk in model.astream("hi")]
    assert time.perf_counter() - started >= 0.01 * len(chunks)


async def test_a_token_is_cheap():
    """The performance budgets compare against bare LangGraph with this model, so its own cost must not dominate."""
    model = model_with(AIMessage("word " * 2_000))

    async def cost() -> float:
        started = time.process_time()
        count = len([chunk async for chunk in model._astream([])])
        return (time.process_time() - started) / count

    # CPU time, and the best of several runs, so that other load on the machine does not count.
    assert min([await cost() for _ in range(5)]) < 200e-6
