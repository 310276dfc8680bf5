"""The names of messages: a stream mode, and the namespace of a subgraph."""

from typing import Any

import pytest

from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId, Seq
from threadwire.http.sse import named_events
from threadwire.protocols.langgraph.encode import RunStreamEncoder, StreamOptions

RUN = RunId("01a1e0f0-e5c3-7916-b07a-1eef68159e17")
CHUNK = {"content": "Hi", "type": "AIMessageChunk", "id": "m"}


@pytest.mark.parametrize(
    ("mode", "kind", "data", "shown"),
    [
        ("values", Kind.STATE, {"full": True, "set": {"n": 1}, "keys": ["n"]}, "values"),
        ("updates", Kind.UPDATES, {"value": {"n": 1}}, "updates"),
        ("custom", Kind.CUSTOM, {"value": "x"}, "custom"),
        ("messages-tuple", Kind.MESSAGES, {"i": 0, "chunk": CHUNK, "meta": {}}, "messages"),
    ],
)
@pytest.mark.parametrize("line_break", ["\r", "\n", "\r\n", "\n\n"])
def test_line_break_in_the_name_of_a_node_does_not_split_the_frame(
    mode: str, kind: str, data: Any, shown: str, line_break: str
) -> None:
    encoder = RunStreamEncoder(StreamOptions(frozenset({mode}), subgraphs=True))
    ns = (f"call{line_break}data: forged{line_break}:task-1", "inner:task-2")

    frame = named_events(encoder.feed(Entry(Seq(7), RUN, 1, 0, ns, kind, data)), Seq(7))

    fields = [line.partition(b": ")[0] for line in frame.splitlines()]
    assert fields == [b"event", b"data", b"id", b""]
    space = " " * len(line_break)
    assert frame.startswith(f"event: {shown}|call{space}data: forged{space}:task-1|inner:task-2\r\n".encode())
