"""The fold of `messages` entries (spec/log.md, 6.1 - 6.4a)."""

from copy import deepcopy
from typing import Any

import pytest
from chunk_streams import META, RUN, entries_of, entry, interleaved
from hypothesis import given, settings
from langchain_core.messages import BaseMessageChunk

from threadwire.core.json import native
from threadwire.core.message_fold import MessageFold, StreamedMessage

CHUNK = {"content": "He", "type": "AIMessageChunk", "id": "m", "name": "x"}
WHOLE = {"content": "Hello", "type": "ai", "id": "m"}
FIRST = {"i": 0, "chunk": CHUNK, "meta": META}


def messages(**options: Any) -> MessageFold[StreamedMessage]:
    return MessageFold(StreamedMessage, **options)


@settings(max_examples=60, deadline=None)
@given(interleaved())
def test_the_fold_returns_every_chunk_that_the_model_produced(chunks: list[BaseMessageChunk]) -> None:
    fold = messages()

    for chunk, recorded in zip(chunks, entries_of(chunks), strict=True):
        message = fold.feed(recorded)
        assert message is not None
        assert (message.chunk(), message.id, message.meta) == (native(chunk), chunk.id, META)


@settings(max_examples=30, deadline=None)
@given(interleaved())
def test_reading_a_message_and_folding_leave_the_entries_unchanged(chunks: list[BaseMessageChunk]) -> None:
    fold, entries = messages(), entries_of(chunks)
    before = deepcopy(entries)

    for recorded in entries:
        message = fold.feed(recorded)
        assert message is not None
        message.chunk()

    assert entries == before


def test_each_form_of_an_entry_is_a_kind_of_change() -> None:
    fold = messages()
    forms = [
        FIRST,
        [0, "llo"],
        {"i": 0, "patch": {"content": "", "name": None}},
        {"i": 1, "message": WHOLE, "meta": {}},
    ]

    assert [(fed := fold.feed(entry(form))) and (fed.change, fed.content) for form in forms] == [
        ("first", "He"),
        ("text", "llo"),
        ("fields", ""),
        ("whole", "Hello"),
    ]


def test_a_message_knows_the_fields_that_changed() -> None:
    fold = messages()
    fold.feed(entry(FIRST))

    message = fold.feed(entry({"i": 0, "patch": {"content": "", "name": None}}))

    assert message is not None
    assert message.changed == {"content": "", "name": None}
    assert message.fields == {**CHUNK, "content": "", "name": None}


def test_all_chunks_of_a_message_return_the_same_object() -> None:
    fold = messages()

    assert fold.feed(entry(FIRST)) is fold.feed(entry([0, "llo"]))


def test_a_message_without_an_id_gets_one_from_its_run_and_number() -> None:
    message = messages().feed(entry({"i": 3, "chunk": {"content": "", "type": "AIMessageChunk"}, "meta": {}}))

    assert message is not None
    assert message.id == f"{RUN}:3"


def test_a_new_attempt_numbers_its_messages_from_zero() -> None:
    fold = messages()
    fold.feed(entry(FIRST))
    fold.clear()

    with pytest.raises(KeyError):
        fold.feed(entry([0, "llo"]))
    again = fold.feed(entry({**FIRST, "chunk": {**CHUNK, "id": "n"}}))

    assert again is not None
    assert again.id == "n"


def test_a_reader_with_subgraphs_ignores_what_is_repeated_at_the_root() -> None:
    """6.4a"""
    repeated = entry({"i": 1, "message": WHOLE, "meta": {}, "root": True})

    assert messages(subgraphs=True).feed(repeated) is None
    assert messages(subgraphs=False).feed(repeated) is not None


def test_a_reader_without_subgraphs_ignores_what_is_streamed_inside_them() -> None:
    inside = entry(FIRST, ns=("node:1",))

    assert messages(subgraphs=False).feed(inside) is None
    read = messages(subgraphs=True).feed(inside)
    assert read is not None
    assert read.ns == ("node:1",)


class _Counted(StreamedMessage):
    __slots__ = ("count",)


def test_a_reader_can_extend_the_messages() -> None:
    fold = MessageFold(_Counted)
    message = fold.feed(entry(FIRST))
    assert message is not None
    message.count = 1

    later = fold.feed(entry([0, "llo"]))

    assert later is not None
    assert later.count == 1
