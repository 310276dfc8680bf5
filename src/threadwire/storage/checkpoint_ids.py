"""Keeps checkpoint ids increasing even if the system clock is set back.

LangGraph generates the ids from the current time, and the newest checkpoint of a thread is the one with the greatest
id. After the clock has been set back, new checkpoints would sort before the existing ones, and a reader that asks for
the newest would never find them: acknowledged state would be lost.

LangGraph keeps ids increasing only within one process. So code that reads a thread's checkpoints passes the newest id
to `advance_id_clock`, and LangGraph generates ids from `ID_CLOCK` (`graphs/langgraph_private/checkpoint_clock.py`).
"""

import threading
import time

_EPOCH = 0x01B21DD213814000
"""The Unix epoch in the time unit of these ids: intervals of 100 nanoseconds since 1582."""


class IdClock:
    """The system clock, but never behind the ids that were seen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offset = 0
        """Offset in nanoseconds that is added to the monotonic clock while the system clock is behind."""

    def time_ns(self) -> int:
        return max(time.time_ns(), time.monotonic_ns() + self._offset)

    def advance_to(self, time_ns: int) -> None:
        with self._lock:
            self._offset = max(self._offset, time_ns - time.monotonic_ns())


ID_CLOCK = IdClock()


def advance_id_clock(checkpoint_id: str) -> None:
    """Ensure that every id generated from now on sorts after `checkpoint_id`. Takes about a microsecond."""
    if checkpoint_id[14:15] != "6":
        return
    try:
        timestamp = int(checkpoint_id[:8] + checkpoint_id[9:13] + checkpoint_id[15:18], 16)
    except ValueError:  # not an id that LangGraph generated
        return
    time_ns = (timestamp - _EPOCH) * 100
    if time_ns >= ID_CLOCK.time_ns():
        ID_CLOCK.advance_to(time_ns + 100)
