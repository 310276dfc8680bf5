"""The current time in milliseconds since the epoch, passed as an argument so that tests can replace it; and how long to
sleep until something is due."""

import time
from collections.abc import Callable

Clock = Callable[[], int]

MIN_SLEEP = 0.005
IDLE_POLL = 5.0
"""Seconds between polls while no hint arrives. Hints may be lost, especially those from other processes."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000


def seconds_until(due: int | None, now: int) -> float:
    """How long to sleep before polling again. If something has become due since the last poll, the sleep is minimal."""
    return IDLE_POLL if due is None else min(IDLE_POLL, max(MIN_SLEEP, (due - now) / 1000))
