"""The ids of checkpoints. LangGraph makes them, with the time in them, and the newest checkpoint is the one whose id is
the greatest. Were they made by a clock that has been set back, new checkpoints would come before those that are there,
and nobody who asks for the newest would ever see them: what was acknowledged would be lost.

LangGraph has ids ascend only within a process. So whoever reads a thread's checkpoints says which it has seen.
"""

import threading
import time
from typing import Any

from langgraph.checkpoint.base import id as langgraph_ids

_EPOCH = 0x01B21DD213814000
"""When Unix's time begins, in the time of these ids: hundreds of nanoseconds since 1582."""


class _Clock:
    """The system's clock; and one that goes on from the ids that were seen, for as long as the system's is behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ahead = 0
        """Of the monotonic clock."""

    def time_ns(self) -> int:
        return max(time.time_ns(), time.monotonic_ns() + self._ahead)

    def go_on_from(self, moment: int) -> None:
        with self._lock:
            self._ahead = max(self._ahead, moment - time.monotonic_ns())

    def __getattr__(self, name: str) -> Any:
        """It stands for the module `time`."""
        return getattr(time, name)


_clock = _Clock()

# Not LangGraph's own floor, which another thread that makes an id at the same moment would set back. The name is
# private to LangGraph, so a version without it is left as it is.
if hasattr(langgraph_ids, "time"):
    langgraph_ids.time = _clock


def let_new_ids_follow(checkpoint_id: str) -> None:
    """Have every id that is made from now on come behind this one. Costs a microsecond."""
    if checkpoint_id[14:15] != "6":
        return
    try:
        stamp = int(checkpoint_id[:8] + checkpoint_id[9:13] + checkpoint_id[15:18], 16)
    except ValueError:  # somebody made it who has other ways
        return
    moment = (stamp - _EPOCH) * 100
    if moment >= _clock.time_ns():
        _clock.go_on_from(moment + 100)
