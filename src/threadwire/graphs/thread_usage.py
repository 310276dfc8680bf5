"""How long a call itself took. A call does not count if its thread was preempted or happened to collect garbage."""

import gc
import resource
import time
from typing import NamedTuple

NOTICEABLE = 0.001
"""Seconds below which it does not matter why a call took that long."""

_RUSAGE_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)
"""None on macOS, which does not count per thread."""


class ThreadUsage(NamedTuple):
    at: float
    """The time in seconds."""
    cpu: float
    """The CPU time of the thread in seconds."""
    waits: int
    """How often the thread has given up its core to wait for something."""
    collections: int
    """How many collections of the middle generation have run since the last full one."""


def thread_usage() -> ThreadUsage:
    at, collections = time.perf_counter(), gc.get_count()[2]
    if _RUSAGE_THREAD is None:
        return ThreadUsage(at, at, 0, collections)
    used = resource.getrusage(_RUSAGE_THREAD)
    return ThreadUsage(at, used.ru_utime + used.ru_stime, used.ru_nvcsw, collections)


def own_seconds(since: ThreadUsage) -> float:
    """How long the call that has just ended took; 0 if something else delayed it."""
    elapsed = time.perf_counter() - since.at
    return elapsed if elapsed < NOTICEABLE or is_own(since, thread_usage()) else 0.0


def is_own(before: ThreadUsage, after: ThreadUsage) -> bool:
    """Whether the thread computed or waited between the two, other than for a full garbage collection."""
    if after.collections < before.collections:
        return False
    return after.waits != before.waits or after.cpu - before.cpu >= (after.at - before.at) / 2
