"""How many connections and runs the process has file descriptors for.

A process without a free descriptor cannot open its own files: reads fail, and so do runs that call a model. So the
descriptors are divided in advance, and what does not fit waits or is rejected.
"""

import resource
from typing import NamedTuple

OWN_FILES = 64
"""Descriptors of the server itself: the database and its readers, event loops, modules that are imported late."""

HEADROOM = 32
"""Connections that are accepted beyond the limit, to reject their requests with a response and to serve `/ok`."""

_TARGETS = (65_536, 10_240)
"""Soft limits to try, if the hard limit allows them. macOS rejects more than 10 240, whatever its hard limit is."""


class Budget(NamedTuple):
    connections: int
    runs: int


def raise_descriptor_limit() -> int:
    """Raise the soft limit of file descriptors towards the hard one. Return the limit that is now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for target in _TARGETS:
        allowed = target if hard == resource.RLIM_INFINITY else min(target, hard)
        if soft == resource.RLIM_INFINITY or soft >= allowed:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        except (ValueError, OSError):
            continue
        soft = allowed
    return _TARGETS[0] if soft == resource.RLIM_INFINITY else soft


def divide(descriptors: int, connections: int, runs: int) -> Budget:
    """Divide the descriptors between connections and runs. Neither gets more than requested. A run is expected to need
    one, for its model. If there are not enough, each gets half, and connections also get what runs do not need."""
    available = max(2, descriptors - OWN_FILES - HEADROOM)
    for_runs = min(runs, available // 2)
    return Budget(min(connections, available - for_runs), for_runs)
