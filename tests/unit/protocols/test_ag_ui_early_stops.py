"""Stop requests that arrive before their runs."""

from threadwire.core.ids import ThreadId
from threadwire.protocols.ag_ui.early_stops import MAX_WAITING, WAITS, EarlyStops

THREAD = ThreadId("thread")


def test_stop_request_applies_only_to_its_run() -> None:
    stops = EarlyStops()
    stops.note(THREAD, "a")
    assert not stops.take(THREAD, "b")
    assert not stops.take(ThreadId("other"), "a")
    assert stops.take(THREAD, "a")
    assert not stops.take(THREAD, "a")


def test_stop_request_expires() -> None:
    now = 0.0
    stops = EarlyStops(clock=lambda: now)
    stops.note(THREAD, "a")
    now = WAITS
    assert not stops.take(THREAD, "a")


def test_number_of_pending_stop_requests_is_limited() -> None:
    stops = EarlyStops()
    for number in range(MAX_WAITING + 1):
        stops.note(THREAD, str(number))
    assert not stops.take(THREAD, "0")
    assert stops.take(THREAD, "1")
