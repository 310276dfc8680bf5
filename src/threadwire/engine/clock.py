"""Now, in milliseconds since the epoch. Passed as an argument where a test needs another time."""

import time
from collections.abc import Callable

Clock = Callable[[], int]


def system_clock() -> int:
    return time.time_ns() // 1_000_000
