"""Keeps checkpoint ids increasing even if the system clock is set back.

LangGraph generates the ids from the current time, and the newest checkpoint of a thread is the one with the greatest
id. After the clock has been set back, new checkpoints would sort before the existing ones, and a reader that asks for
the newest would never find them: acknowledged state would be lost.

LangGraph keeps ids increasing only within one process. So code that reads a thread's checkpoints reports the newest id
it has seen to `advance_id_clock`.
"""

import threading
import time
from typing import Any

from langgraph.checkpoint.base import id as langgraph_ids

_EPOCH = 0x01B21DD213814000
"""The Unix epoch in the time unit of these ids: intervals of 100 nanoseconds since 1582."""


class _Clock:
    """Stands in for the module `time`: the system clock, but never behind the ids that were seen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offset = 0
        """Offset in nanoseconds that is added to the monotonic clock while the system clock is behind."""

    def time_ns(self) -> int:
        return max(time.time_ns(), time.monotonic_ns() + self._offset)

    def advance_to(self, time_ns: int) -> None:
        with self._lock:
            self._offset = max(self._offset, time_ns - time.monotonic_ns())

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


_clock = _Clock()

# Why not raise LangGraph's own lower bound for ids: another thread that generates an id concurrently would reset it.
# The name `time` is private to LangGraph, so a version without it is left unpatched.
if hasattr(langgraph_ids, "time"):
    langgraph_ids.time = _clock


def advance_id_clock(checkpoint_id: str) -> None:
    """Ensure that every id generated from now on sorts after `checkpoint_id`. Takes about a microsecond."""
    if checkpoint_id[14:15] != "6":
        return
    try:
        timestamp = int(checkpoint_id[:8] + checkpoint_id[9:13] + checkpoint_id[15:18], 16)
    except ValueError:  # not an id that LangGraph generated
        return
    time_ns = (timestamp - _EPOCH) * 100
    if time_ns >= _clock.time_ns():
        _clock.advance_to(time_ns + 100)
