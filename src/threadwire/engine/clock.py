"""Now, in milliseconds since the epoch, passed as an argument where a test needs another time; and how long to sleep
until something is due."""

import time
from collections.abc import Callable

Clock = Callable[[], int]

SOON = 0.005
IDLE_POLL = 5.0
"""Seconds between two looks when nobody hints; hints are in-process, so this is only a safety net."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000


def seconds_until(due: int | None, now: int) -> float:
    """How long to sleep before looking for what is due; what became due since the last look is looked for soon."""
    return IDLE_POLL if due is None else min(IDLE_POLL, max(SOON, (due - now) / 1000))
