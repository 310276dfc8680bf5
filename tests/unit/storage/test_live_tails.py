import pytest

from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.storage.postgres import live_tails
from threadwire.storage.postgres.hints import SegmentHint
from threadwire.storage.postgres.id_keys import key_of
from threadwire.storage.postgres.live_tails import LiveTails, hint_of, received
from threadwire.storage.postgres.transaction import SegmentRow
from threadwire.storage.segments import Segment, pack

THREAD = ThreadId("01990000-0000-7000-8000-000000000001")
RUN = RunId("01990000-0000-7000-8000-000000000002")


def segment(first: int, count: int, run_id: RunId | None = RUN) -> Segment:
    made = Segment(THREAD, first, run_id, 1)
    made.entries = [("custom", f'{{"value":{number}}}', (), 1000) for number in range(first, first + count)]
    return made


def hint(made: Segment) -> SegmentHint:
    [packed] = pack(made.entries)
    run = None if made.run_id is None else key_of(made.run_id)
    row = SegmentRow(key_of(THREAD), made.first, packed.n, run, made.attempt, packed.at, packed.packed, packed.data)
    return hint_of(THREAD, row)


def seqs(tails: LiveTails, after: int, limit: int = 100, run_id: RunId | None = None) -> list[int]:
    return [entry.seq for entry in tails.read(THREAD, after, limit, run_id)]


def test_entries_are_read_across_segments_up_to_the_limit() -> None:
    tails = LiveTails()
    tails.add(THREAD, segment(1, 3))
    tails.add(THREAD, segment(4, 2))
    assert seqs(tails, 0) == [1, 2, 3, 4, 5]
    assert seqs(tails, 1, limit=3) == [2, 3, 4]
    assert seqs(tails, 5) == []


def test_a_segment_arrives_from_another_process_as_it_was_stored() -> None:
    for run_id in (RUN, None):
        made = segment(7, 3, run_id)
        arrived = received(hint(made))
        assert arrived is not None
        assert arrived.after(7, 10) == made.after(7, 10)


def test_a_damaged_segment_is_ignored() -> None:
    stored = hint(segment(1, 2))
    for damaged in (b"", b"short", stored.segment[:-1], stored.segment[:-1] + b"?", b"x" * 40):
        assert received(SegmentHint(THREAD, stored.first_seq, stored.count, damaged)) is None


def test_entries_after_a_gap_are_read_from_the_table() -> None:
    tails = LiveTails()
    tails.add(THREAD, segment(1, 2))
    tails.add(THREAD, segment(5, 2))
    assert seqs(tails, 2) == []
    assert seqs(tails, 4) == [5, 6]


def test_a_hint_that_is_late_or_repeated_changes_nothing() -> None:
    tails = LiveTails()
    tails.add(THREAD, segment(1, 2))
    tails.add(THREAD, segment(3, 2))
    tails.add(THREAD, segment(1, 2))
    assert seqs(tails, 0) == [1, 2, 3, 4]


def test_only_the_entries_of_the_wanted_run_are_returned() -> None:
    tails = LiveTails()
    tails.add(THREAD, segment(1, 2, None))
    tails.add(THREAD, segment(3, 2))
    assert seqs(tails, 0, run_id=RUN) == [3, 4]


def test_old_segments_are_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    tails = LiveTails()
    tails.add(THREAD, segment(1, 2))
    monkeypatch.setattr(live_tails, "LIFETIME", -1.0)
    assert seqs(tails, 0) == []


def test_a_forgotten_thread_is_read_from_the_table() -> None:
    tails = LiveTails()
    tails.add(THREAD, segment(1, 2))
    tails.forget(THREAD)
    assert tails.read(THREAD, Seq(0), 10, None) == []
