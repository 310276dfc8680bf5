"""Stops that overtake their runs.

A page that stops a run which it has just begun sends both at once, and the run, with the whole conversation in it, may
arrive last. The page knows it by an id of its own, so the stop waits for it a while.
"""

import time
from collections.abc import Callable

from threadwire.core.ids import ThreadId

WAITS = 30.0
"""Seconds."""
MAX_WAITING = 1000


class EarlyStops:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[tuple[ThreadId, str], float] = {}

    def note(self, thread_id: ThreadId, run_id: str) -> None:
        """A run of that id was to be stopped, and is not there."""
        while len(self._waiting) >= MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[thread_id, run_id] = self._clock() + WAITS

    def take(self, thread_id: ThreadId, run_id: str) -> bool:
        """Whether a run that has just begun was to be stopped."""
        until = self._waiting.pop((thread_id, run_id), None)
        return until is not None and self._clock() < until
