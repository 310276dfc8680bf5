"""Stop requests that arrive before their runs.

A client that stops a run it has just started sends both requests at about the same time. The request for the run
contains the whole conversation and may arrive last. The client has chosen the run's id, so the stop request can wait
for it.
"""

import time
from collections.abc import Callable

from threadwire.core.ids import ThreadId

EXPIRES_AFTER = 30.0
"""Seconds that a stop request waits for its run."""
MAX_WAITING = 1000


class PendingStops:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[tuple[ThreadId, str], float] = {}

    def note(self, thread_id: ThreadId, run_id: str) -> None:
        """Remember a stop request for a run that does not exist yet."""
        while len(self._waiting) >= MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[thread_id, run_id] = self._clock() + EXPIRES_AFTER

    def take(self, thread_id: ThreadId, run_id: str) -> bool:
        """Whether there was a stop request for a run that has just been accepted. Removes it."""
        until = self._waiting.pop((thread_id, run_id), None)
        return until is not None and self._clock() < until
