"""Checkpoints are byte-for-byte LangGraph's, on the fast path too."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
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

from threadwire.graphs.persistence_config import CheckpointerConfig
from threadwire.graphs.serializer import CheckpointSerializer, checkpoint_serializer

pytestmark = pytest.mark.every_version

LANGGRAPHS = JsonPlusSerializer()
OURS = CheckpointSerializer()


class Inner(BaseModel):
    number: int = 1


@dataclass
class Point:
    x: int = 1


class Colour(StrEnum):
    RED = "red"


def messages_of(kind: type[BaseMessage], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[BaseMessage]:
    return st.fixed_dictionaries(fields).map(lambda values: kind(**values))


text = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | text,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(text, each, max_size=3),
    max_leaves=6,
)
objects = st.sampled_from(
    [Inner(), Point(), Colour.RED, {1, 2}, (1, "a"), UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC), b"raw", {1: 2}]
)
anything = plain | objects | st.dictionaries(text, objects, max_size=2) | st.lists(objects, max_size=2)
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
    messages_of(HumanMessage, content=content, additional_kwargs=kwargs, name=st.none() | text, id=st.none() | text),
    messages_of(SystemMessage, content=content, response_metadata=kwargs),
    messages_of(
        AIMessage,
        content=content,
        additional_kwargs=kwargs,
        response_metadata=kwargs,
        tool_calls=tool_calls,
        usage_metadata=usage,
    ),
    messages_of(ToolMessage, content=content, tool_call_id=text, artifact=anything),
    messages_of(AIMessageChunk, content=text),
    messages_of(RemoveMessage, id=text),
    messages_of(HumanMessage, content=content, extra_field=plain),
)


@given(st.lists(messages | anything, max_size=4))
def test_lists_are_written_as_langgraph_does(values: list[Any]) -> None:
    assert OURS.dumps_typed(values) == LANGGRAPHS.dumps_typed(values)


@given(messages | anything)
def test_values_are_written_as_langgraph_does(value: Any) -> None:
    assert OURS.dumps_typed(value) == LANGGRAPHS.dumps_typed(value)
    assert OURS.dumps_typed({"value": value}) == LANGGRAPHS.dumps_typed({"value": value})


@given(st.lists(messages | anything, max_size=4))
def test_values_are_read_as_langgraph_does(values: list[Any]) -> None:
    stored = LANGGRAPHS.dumps_typed(values)
    ours, theirs = OURS.loads_typed(stored), LANGGRAPHS.loads_typed(stored)
    assert ours == theirs
    assert repr(ours) == repr(theirs)  # the order of the fields too


def test_tool_calls_of_an_old_message_are_found() -> None:
    function = {"name": "f", "arguments": '{"a": 1}'}
    old = AIMessage("", id="1")
    old.additional_kwargs["tool_calls"] = [{"id": "c", "type": "function", "function": function}]
    [read] = OURS.loads_typed(OURS.dumps_typed([old]))
    assert [call["name"] for call in read.tool_calls] == ["f"]


def test_decoded_message_behaves_like_a_new_one() -> None:
    message = HumanMessage("hi", id="1")
    read = OURS.loads_typed(OURS.dumps_typed(message))
    assert read.model_copy(update={"content": "ho"}).content == "ho"
    assert read.model_dump_json() == message.model_dump_json()
    assert read.text == "hi"
    read.content = "changed"
    assert read.content == "changed"


def test_messages_round_trip() -> None:
    conversation = [
        HumanMessage("hi", id="1"),
        AIMessage("ho", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c"}]),
    ]
    assert OURS.loads_typed(OURS.dumps_typed(conversation)) == conversation


def test_message_changed_after_a_write_is_written_with_its_changes() -> None:
    message = AIMessage("before", id="1")
    OURS.dumps_typed([message])
    message.content = "after"
    message.additional_kwargs["seen"] = True
    assert OURS.loads_typed(OURS.dumps_typed([message])) == [message]


def test_checkpoints_use_our_serializer() -> None:
    assert isinstance(checkpoint_serializer(CheckpointerConfig()), CheckpointSerializer)
