"""The timeline's messages as a function of entries: what an entry changes, and which run is active."""

import json
from typing import Any

import pytest

from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId, Seq
from threadwire.core.timeline.fold import VERSION
from threadwire.http.sse import named_events
from threadwire.protocols.timeline import encode
from threadwire.protocols.timeline.encode import TimelineEncoder, first_message, page_of_summary

ONE, TWO = RunId("run-1"), RunId("run-2")


class Log:
    """Feeds an encoder entries with sequence numbers, and returns the data of their messages."""

    def __init__(self) -> None:
        self.encoder = TimelineEncoder()
        self._seq = 0
        self._messages: list[Any] = []

    def add(self, run_id: RunId | None, kind: str, data: Any, event: bytes = b"changes") -> Any:
        self._seq += 1
        messages = self.encoder.feed(Entry(Seq(self._seq), run_id, 0 if run_id is None else 1, 7, (), kind, data))
        assert len(messages) <= 1
        for name, encoded in messages:
            assert name == event
            return json.loads(encoded)
        return None

    def message(self, number: int) -> None:
        message = {"type": "human", "id": str(number), "content": f"text {number}"}
        self.add(None, Kind.STATE_RESET, {"cause": "update", "values": {"messages": [*self._messages, message]}})
        self._messages.append(message)


@pytest.fixture
def log() -> Log:
    return Log()


def running(run_id: RunId) -> dict[str, str]:
    return {"id": run_id, "status": "running"}


def pending(run_id: RunId) -> dict[str, str]:
    return {"id": run_id, "status": "pending"}


def test_a_run_is_active_from_its_acceptance_to_its_end(log: Log) -> None:
    assert log.encoder.run is None
    assert log.add(ONE, Kind.RUN_QUEUED, {}) == {"changes": [], "run": pending(ONE)}
    assert log.add(ONE, Kind.RUN_STARTED, {"attempt": 1}) == {"changes": [], "run": running(ONE)}
    assert log.add(ONE, Kind.RUN_STARTED, {"attempt": 2}) is None
    ended = log.add(ONE, Kind.RUN_ENDED, {"status": "error", "error": {"error": "E", "message": "m"}})
    error = {"error": "E", "message": "m"}
    assert ended == {"changes": [], "run": None, "ended": {"id": ONE, "status": "error", "error": error}}


def test_the_running_run_comes_before_the_waiting_one(log: Log) -> None:
    for run_id in (ONE, TWO):
        log.add(run_id, Kind.RUN_QUEUED, {})
    assert log.add(TWO, Kind.RUN_STARTED, {"attempt": 1})["run"] == running(TWO)
    ended = log.add(TWO, Kind.RUN_ENDED, {"status": "success"})
    assert (ended["run"], ended["ended"]["id"]) == (pending(ONE), TWO)


def test_the_end_of_a_waiting_run_leaves_the_active_one_alone(log: Log) -> None:
    for run_id in (ONE, TWO):
        log.add(run_id, Kind.RUN_QUEUED, {})
    log.add(ONE, Kind.RUN_STARTED, {"attempt": 1})
    ended = log.add(TWO, Kind.RUN_ENDED, {"status": "interrupted"})
    assert ended == {"changes": [], "ended": {"id": TWO, "status": "interrupted"}}
    assert log.encoder.run == running(ONE)


def test_an_entry_that_changes_nothing_has_no_message(log: Log) -> None:
    log.add(ONE, Kind.RUN_STARTED, {"attempt": 1})
    assert log.add(ONE, Kind.DISPATCHED, {"name": "n", "data": 1}) is None
    assert log.add(None, Kind.STATE_RESET, {"cause": "prune"}) is None


def test_custom_data_is_sent_and_is_not_part_of_the_timeline(log: Log) -> None:
    log.add(ONE, Kind.RUN_STARTED, {"attempt": 1})
    weight = log.encoder.weight
    assert log.add(ONE, Kind.CUSTOM, {"value": {"step": 1}}) == {"changes": [], "custom": [{"step": 1}]}
    assert log.encoder.weight == weight
    widget = {"type": "ui", "id": "u", "name": "card", "props": {}, "metadata": {}}
    both = log.add(ONE, Kind.CUSTOM, {"value": [widget, "two"]})
    assert ([each["change"] for each in both["changes"]], both["custom"]) == (["insert"], ["two"])
    assert "custom" not in log.add(ONE, Kind.CUSTOM, {"value": {**widget, "name": "other"}})
    assert [block["id"] for block in log.encoder.page(10)["blocks"]] == ["u:u"]


def test_all_changes_of_an_entry_are_one_message_with_its_position() -> None:
    messages = [{"type": "human", "id": each, "content": each} for each in "ab"]
    reset = {"cause": "update", "values": {"messages": messages, "n": 1}}
    encoder = TimelineEncoder()
    frames = named_events(encoder.feed(Entry(Seq(1), None, 0, 7, (), Kind.STATE_RESET, reset)), Seq(1))
    assert frames.count(b"event: changes") == frames.count(b"id: 1\r\n") == 1
    kinds = [each["change"] for each in json.loads(frames.split(b"\r\n")[1].removeprefix(b"data: "))["changes"]]
    assert kinds == ["insert", "insert", "values"]


def test_pages_end_before_a_block(log: Log) -> None:
    for number in range(5):
        log.message(number)
    last = log.encoder.page(2)
    assert ([each["id"] for each in last["blocks"]], last["before"], last["seq"]) == (["m:3", "m:4"], "m:3", 5)
    earlier = log.encoder.page(2, "m:3")
    assert ([each["id"] for each in earlier["blocks"]], earlier["before"]) == (["m:1", "m:2"], "m:1")
    first = log.encoder.page(2, "m:1")
    assert [each["id"] for each in first["blocks"]] == ["m:0"]
    assert "before" not in first
    assert log.encoder.page(2, "m:0")["blocks"] == []
    with pytest.raises(KeyError):
        log.encoder.page(2, "m:9")


def test_an_exact_page_names_no_earlier_one(log: Log) -> None:
    for number in range(2):
        log.message(number)
    assert "before" not in log.encoder.page(2)


def test_the_snapshot_is_the_last_page(log: Log) -> None:
    log.message(0)
    name, data = first_message(log.encoder.page(10))
    assert (name, json.loads(data)) == (b"snapshot", log.encoder.page(10))


def test_a_restored_timeline_continues_where_the_snapshot_was_taken(log: Log) -> None:
    log.message(0)
    log.add(ONE, Kind.RUN_QUEUED, {})
    restored = TimelineEncoder()
    restored.restore(log.encoder.snapshot())
    assert restored.page(10) == log.encoder.page(10)
    assert restored.weight == log.encoder.weight
    entry = Entry(Seq(3), ONE, 1, 7, (), Kind.RUN_STARTED, {"attempt": 1})
    assert restored.feed(entry) == log.encoder.feed(entry)


def test_a_snapshot_of_another_version_is_rejected(log: Log) -> None:
    snapshot = log.encoder.snapshot().replace(b'"version":%d' % VERSION, b'"version":0')
    with pytest.raises(ValueError, match="version"):
        TimelineEncoder().restore(snapshot)


def test_a_snapshot_has_all_blocks_however_many_lines_they_take(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "_BLOCKS_PER_LINE", 2)
    for number in range(5):
        log.message(number)
    snapshot = log.encoder.snapshot()
    restored = TimelineEncoder()
    restored.restore(snapshot)
    assert snapshot.count(b"\n") == 3
    assert restored.timeline.blocks() == log.encoder.timeline.blocks()


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_summary_serves_pages_up_to_its_length(log: Log, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(encode, "SUMMARY_BLOCKS", 3)
    for number in range(5):
        log.message(number)
    summary = log.encoder.summary()
    assert summary is not None
    assert page_of_summary(summary, limit) == log.encoder.page(limit)
    assert page_of_summary(summary, 4) is None


def test_a_summary_of_a_short_timeline_serves_every_page(log: Log) -> None:
    log.message(0)
    summary = log.encoder.summary()
    assert summary is not None
    assert page_of_summary(summary, 1000) == page_of_summary(summary, 1) == log.encoder.page(1)


def test_a_summary_of_another_version_is_ignored(log: Log) -> None:
    summary = log.encoder.summary()
    assert summary is not None
    assert page_of_summary(summary.replace(b'"version":%d' % VERSION, b'"version":0'), 1) is None


def test_a_timeline_has_no_summary_while_a_run_is_active(log: Log) -> None:
    log.add(ONE, Kind.RUN_QUEUED, {})
    assert log.encoder.summary() is None
    log.add(ONE, Kind.RUN_STARTED, {"attempt": 1})
    assert log.encoder.summary() is None
    log.add(ONE, Kind.RUN_ENDED, {"status": "success"})
    assert log.encoder.summary() is not None


def test_a_token_adds_only_its_text_to_the_weight(log: Log) -> None:
    log.add(ONE, Kind.RUN_STARTED, {"attempt": 1})
    chunk = {"type": "AIMessageChunk", "id": "m", "content": ""}
    log.add(ONE, Kind.MESSAGES, {"i": 0, "chunk": chunk, "meta": {}})
    before = log.encoder.weight
    assert log.add(ONE, Kind.MESSAGES, [0, "word"], event=b"append") == ["m:m", "word", 2, 7]
    assert log.encoder.weight == before + len("word")
