"""Stop requests that arrive before their runs."""

from threadwire.core.ids import ThreadId
from threadwire.protocols.ag_ui.pending_stops import EXPIRES_AFTER, MAX_WAITING, PendingStops

THREAD = ThreadId("thread")


def test_stop_request_applies_only_to_its_run() -> None:
    stops = PendingStops()
    stops.note(THREAD, "a")
    assert not stops.take(THREAD, "b")
    assert not stops.take(ThreadId("other"), "a")
    assert stops.take(THREAD, "a")
    assert not stops.take(THREAD, "a")


def test_stop_request_expires() -> None:
    now = 0.0
    stops = PendingStops(clock=lambda: now)
    stops.note(THREAD, "a")
    now = EXPIRES_AFTER
    assert not stops.take(THREAD, "a")


def test_number_of_pending_stop_requests_is_limited() -> None:
    stops = PendingStops()
    for number in range(MAX_WAITING + 1):
        stops.note(THREAD, str(number))
    assert not stops.take(THREAD, "0")
    assert stops.take(THREAD, "1")
