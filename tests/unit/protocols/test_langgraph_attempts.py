"""The classic stream when a run continues with another attempt. The clients that need it are in tests/js."""

from typing import Any

from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId, Seq
from threadwire.core.json import loads
from threadwire.http.sse import named_events
from threadwire.protocols.langgraph.encode import RunStreamEncoder, StreamOptions

RUN = RunId("01a1e0f0-e5c3-7916-b07a-1eef68159e17")


def frames(options: StreamOptions, drafts: list[tuple[int, str, Any]]) -> list[tuple[str, Any, str | None]]:
    """Event, data and id of every frame of these entries, `(attempt, kind, data)`, numbered from 1."""
    encoder = RunStreamEncoder(options)
    sent = b"".join(
        named_events(encoder.feed(Entry(Seq(number), RUN, attempt, 0, (), kind, data)), Seq(number))
        for number, (attempt, kind, data) in enumerate(drafts, start=1)
    )
    parsed = []
    for frame in sent.decode().strip().split("\r\n\r\n"):
        fields = dict(line.split(": ", 1) for line in frame.split("\r\n"))
        parsed.append((fields["event"], loads(fields["data"]), fields.get("id")))
    return parsed


def first_chunk(attempt: int, message_id: str, text: str) -> tuple[int, str, Any]:
    chunk = {"content": text, "type": "AIMessageChunk", "id": message_id}
    return attempt, Kind.MESSAGES, {"i": 0, "chunk": chunk, "meta": {"langgraph_node": "model"}}


def started(attempt: int) -> tuple[int, str, Any]:
    return attempt, Kind.RUN_STARTED, {"attempt": attempt}


TUPLES = StreamOptions(frozenset({"messages-tuple"}))


def test_message_that_starts_again_with_the_same_id_is_removed_first() -> None:
    sent = frames(
        TUPLES,
        [started(1), first_chunk(1, "m", "He"), (1, Kind.MESSAGES, [0, "llo"]), started(2), first_chunk(2, "m", "Hi")],
    )

    assert [(event, number) for event, _, number in sent[3:]] == [
        ("metadata", "4"),
        ("messages", None),
        ("messages", "5"),
    ]
    (removed, meta), (again, _) = sent[4][1], sent[5][1]
    assert (removed["type"], removed["id"], removed["content"]) == ("remove", "m", "")
    assert meta == {"langgraph_node": "model"}
    assert (again["id"], again["content"]) == ("m", "Hi")


def test_complete_message_that_is_sent_again_is_removed_first() -> None:
    whole = {"i": 0, "message": {"content": "Hi", "type": "ai", "id": "m"}, "meta": {}}

    sent = frames(TUPLES, [started(1), (1, Kind.MESSAGES, whole), started(2), (2, Kind.MESSAGES, whole)])

    assert [data[0]["type"] for event, data, _ in sent if event == "messages"] == ["ai", "remove", "ai"]


def test_message_with_a_new_id_removes_nothing() -> None:
    sent = frames(TUPLES, [started(1), first_chunk(1, "m", "He"), started(2), first_chunk(2, "n", "Hi")])

    assert [event for event, _, _ in sent] == ["metadata", "messages", "metadata", "messages"]


def test_message_is_removed_in_each_attempt_that_starts_it_again() -> None:
    entries = [entry for attempt in (1, 2, 3) for entry in (started(attempt), first_chunk(attempt, "m", "Hi"))]

    sent = frames(TUPLES, entries)

    types = [data[0]["type"] for event, data, _ in sent if event == "messages"]
    assert types == ["AIMessageChunk", "remove", "AIMessageChunk", "remove", "AIMessageChunk"]


def test_accumulated_message_starts_over() -> None:
    sent = frames(
        StreamOptions(frozenset({"messages"})),
        [started(1), first_chunk(1, "m", "He"), started(2), first_chunk(2, "m", "Hi")],
    )

    assert [data[0]["content"] for event, data, _ in sent if event == "messages/partial"] == ["He", "Hi"]
