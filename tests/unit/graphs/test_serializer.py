"""Checkpoints are LangGraph's, byte for byte, whichever way they were written."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from threadwire.graphs.persistence import CheckpointerConfig
from threadwire.graphs.serializer import CheckpointSerializer, checkpoint_serializer

LANGGRAPHS = JsonPlusSerializer()
OURS = CheckpointSerializer()


class Inner(BaseModel):
    number: int = 1


@dataclass
class Point:
    x: int = 1


class Colour(StrEnum):
    RED = "red"


def made(kind: type[BaseMessage], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[BaseMessage]:
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


text = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | text,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(text, each, max_size=3),
    max_leaves=6,
)
odd = st.sampled_from(
    [Inner(), Point(), Colour.RED, {1, 2}, (1, "a"), UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC), b"raw", {1: 2}]
)
anything = plain | odd | st.dictionaries(text, odd, max_size=2) | st.lists(odd, max_size=2)
content = text | st.lists(text | st.dictionaries(text, plain, max_size=3), max_size=3)
tool_calls = st.lists(
    st.fixed_dictionaries({"name": text, "args": st.dictionaries(text, plain, max_size=2), "id": text}), max_size=2
)
usage = st.none() | st.fixed_dictionaries(
    {"input_tokens": st.just(1), "output_tokens": st.just(2), "total_tokens": st.just(3)},
    optional={"input_token_details": st.just({"cache_read": 1})},
)
kwargs = st.dictionaries(text, anything, max_size=2)
messages: st.SearchStrategy[BaseMessage] = st.one_of(
    made(HumanMessage, content=content, additional_kwargs=kwargs, name=st.none() | text, id=st.none() | text),
    made(SystemMessage, content=content, response_metadata=kwargs),
    made(
        AIMessage,
        content=content,
        additional_kwargs=kwargs,
        response_metadata=kwargs,
        tool_calls=tool_calls,
        usage_metadata=usage,
    ),
    made(ToolMessage, content=content, tool_call_id=text, artifact=anything),
    made(AIMessageChunk, content=text),
    made(RemoveMessage, id=text),
    made(HumanMessage, content=content, extra_field=plain),
)


@given(st.lists(messages | anything, max_size=4))
def test_a_list_is_written_as_langgraph_writes_it(values: list[Any]) -> None:
    assert OURS.dumps_typed(values) == LANGGRAPHS.dumps_typed(values)


@given(messages | anything)
def test_a_value_is_written_as_langgraph_writes_it(value: Any) -> None:
    assert OURS.dumps_typed(value) == LANGGRAPHS.dumps_typed(value)
    assert OURS.dumps_typed({"value": value}) == LANGGRAPHS.dumps_typed({"value": value})


def test_a_message_comes_back_as_it_was() -> None:
    said = [HumanMessage("hi", id="1"), AIMessage("ho", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c"}])]
    assert OURS.loads_typed(OURS.dumps_typed(said)) == said


def test_a_message_that_was_changed_after_it_was_written_is_written_as_it_is_now() -> None:
    message = AIMessage("before", id="1")
    OURS.dumps_typed([message])
    message.content = "after"
    message.additional_kwargs["seen"] = True
    assert OURS.loads_typed(OURS.dumps_typed([message])) == [message]


def test_checkpoints_are_written_that_way() -> None:
    assert isinstance(checkpoint_serializer(CheckpointerConfig()), CheckpointSerializer)
