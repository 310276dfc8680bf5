"""Compaction of events."""

from typing import Any

from threadwire.protocols.copilotkit.compaction import Compaction

Event = dict[str, Any]


def compacted(*events: Event) -> list[Event]:
    compaction = Compaction()
    for each in events:
        compaction.feed([each])
    return compaction.rest()


def text(message_id: str, *pieces: str) -> list[Event]:
    deltas = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": piece} for piece in pieces]
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"},
        *deltas,
        {"type": "TEXT_MESSAGE_END", "messageId": message_id},
    ]


STARTED: Event = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED: Event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


def test_pieces_of_a_message_are_joined() -> None:
    assert compacted(*text("m", "a", "b", "c")) == text("m", "abc")


def test_interleaved_messages_are_joined_separately() -> None:
    start_a, a1, a2, end_a = text("a", "1", "2")
    start_b, b1, end_b = text("b", "x")
    assert compacted(start_a, a1, start_b, b1, a2, end_a, end_b) == [
        start_a,
        start_b,
        *text("a", "12")[1:],
        *text("b", "x")[1:],
    ]


def test_message_without_text_stays_without_text() -> None:
    assert compacted(*text("m")) == text("m")


def test_pieces_of_tool_calls_and_reasoning_are_joined() -> None:
    pieces: list[Event] = [{"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": each} for each in ('{"a":', "1}")]
    call: list[Event] = [
        {"type": "TOOL_CALL_START", "toolCallId": "c"},
        *pieces,
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
    ]
    assert [each.get("delta") for each in compacted(*call)] == [None, '{"a":1}', None]
    reasoning: list[Event] = [
        {"type": "REASONING_MESSAGE_START", "messageId": "m"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m", "delta": "h"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m", "delta": "m"},
        {"type": "REASONING_MESSAGE_END", "messageId": "m"},
    ]
    assert [each.get("delta") for each in compacted(*reasoning)] == [None, "hm", None]


def test_only_the_last_state_of_a_run_is_kept() -> None:
    snapshot: Event = {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}}
    delta: Event = {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": 2}]}
    last = {"type": "STATE_SNAPSHOT", "snapshot": {"n": 2}}
    assert compacted(STARTED, snapshot, delta, FINISHED, STARTED, FINISHED) == [
        STARTED,
        last,
        FINISHED,
        STARTED,
        FINISHED,
    ]


def test_open_message_contains_its_text_so_far() -> None:
    start, first, _, _ = text("m", "so", " far")
    error: Event = {"type": "RUN_ERROR", "message": "x"}
    assert compacted(STARTED, start, first) == [STARTED, start, first]
    assert compacted(STARTED, start, first, error) == [STARTED, start, first, error]


def test_complete_events_are_returned_once() -> None:
    compaction = Compaction()
    start, first, _ = text("m", "so")
    compaction.feed([start, first, {"type": "STATE_SNAPSHOT", "snapshot": {}}])
    assert compaction.take() == [start]
    assert compaction.take() == []
    assert compaction.rest() == compaction.rest() != []


def test_compaction_does_not_change_the_events_it_is_fed() -> None:
    inserted = {"op": "add", "path": "/log/1", "value": {"n": 1}}
    changed = {"op": "replace", "path": "/log/1/n", "value": 2}
    snapshot = {"type": "STATE_SNAPSHOT", "snapshot": {"log": [{"n": 0}]}}
    delta = {"type": "STATE_DELTA", "delta": [inserted, changed]}

    assert compacted(snapshot, delta) == [{"type": "STATE_SNAPSHOT", "snapshot": {"log": [{"n": 0}, {"n": 2}]}}]
    assert snapshot["snapshot"] == {"log": [{"n": 0}]}
    assert inserted["value"] == {"n": 1}
