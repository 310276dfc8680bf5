"""Framing messages as server-sent events."""

import pytest

from threadwire.core.encoder import Framing, Message
from threadwire.core.ids import Seq
from threadwire.http.sse import named_events, unnamed_events

ONE: list[Message] = [(b"values", b'{"n":1}')]
TWO: list[Message] = [(b"metadata", b"{}"), *ONE]


@pytest.mark.parametrize(
    ("framing", "messages", "seq", "expected"),
    [
        (named_events, ONE, Seq(7), b'event: values\r\ndata: {"n":1}\r\nid: 7\r\n\r\n'),
        (named_events, ONE, None, b'event: values\r\ndata: {"n":1}\r\n\r\n'),
        (unnamed_events, ONE, Seq(7), b'data: {"n":1}\nid: 7\n\n'),
        (unnamed_events, ONE, None, b'data: {"n":1}\n\n'),
    ],
)
def test_one_message_is_one_event(framing: Framing, messages: list[Message], seq: Seq | None, expected: bytes) -> None:
    assert framing(messages, seq) == expected


def test_only_the_last_event_of_an_entry_has_its_id() -> None:
    """spec/log.md, 4.2"""
    last_named, last_unnamed = named_events(ONE, Seq(7)), unnamed_events(ONE, Seq(7))
    assert named_events(TWO, Seq(7)) == b"event: metadata\r\ndata: {}\r\n\r\n" + last_named
    assert unnamed_events(TWO, Seq(7)) == b"data: {}\n\n" + last_unnamed
    assert b"id:" not in named_events(TWO, None) + unnamed_events(TWO, None)


@pytest.mark.parametrize("framing", [named_events, unnamed_events])
def test_no_messages_result_in_no_bytes(framing: Framing) -> None:
    assert framing([], Seq(7)) == b""
