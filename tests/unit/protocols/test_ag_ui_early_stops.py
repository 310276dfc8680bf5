"""Stops that overtake their runs."""

from threadwire.core.ids import ThreadId
from threadwire.protocols.ag_ui.early_stops import MAX_WAITING, WAITS, EarlyStops

THREAD = ThreadId("thread")


def test_a_stop_waits_for_its_run_and_for_no_other() -> None:
    stops = EarlyStops()
    stops.note(THREAD, "a")
    assert not stops.take(THREAD, "b")
    assert not stops.take(ThreadId("other"), "a")
    assert stops.take(THREAD, "a")
    assert not stops.take(THREAD, "a")


def test_a_stop_does_not_wait_for_ever() -> None:
    now = 0.0
    stops = EarlyStops(clock=lambda: now)
    stops.note(THREAD, "a")
    now = WAITS
    assert not stops.take(THREAD, "a")


def test_only_so_many_wait() -> None:
    stops = EarlyStops()
    for number in range(MAX_WAITING + 1):
        stops.note(THREAD, str(number))
    assert not stops.take(THREAD, "0")
    assert stops.take(THREAD, "1")
