"""A cache of encoded thread states: clients read the same state again and again, after a reload or while they poll.

Every change of a thread's state appends an entry to its log. So the state of an idle thread stays the same as long as
its log has not grown and its graph has not changed. While a run is active, its checkpoints may be ahead of the log, so
the caller must not cache the state.
"""

from collections.abc import Hashable
from typing import NamedTuple

from threadwire.core.ids import Seq, ThreadId
from threadwire.engine.sized_cache import SizedCache

MAX_CACHED_BYTES = 32 * 1024 * 1024
"""Bytes of encoded states that are cached."""

MAX_STATE_BYTES = MAX_CACHED_BYTES // 8
"""The largest state that is cached."""

_OVERHEAD = 500
"""Bytes that a cached state takes in addition to its JSON, roughly."""


class StateKey(NamedTuple):
    thread_id: ThreadId
    options: Hashable
    """Which state of the thread, and how it is read."""


class StateVersion(NamedTuple):
    """What a cached state depends on. The state is valid as long as none of this changes."""

    created_at: int
    """When the thread was created. A thread that was deleted and created again may have as many entries."""
    last: Seq
    graph_id: str
    generation: int
    """The generation of the project's graphs."""


class StateCache:
    def __init__(self) -> None:
        self._states: SizedCache[StateKey, tuple[StateVersion, bytes]] = SizedCache(lambda: MAX_CACHED_BYTES)

    def get(self, key: StateKey, version: StateVersion) -> bytes | None:
        cached = self._states.get(key)
        return None if cached is None or cached[0] != version else cached[1]

    def put(self, key: StateKey, version: StateVersion, encoded: bytes) -> None:
        if len(encoded) <= MAX_STATE_BYTES:
            self._states.put(key, (version, encoded), len(encoded) + _OVERHEAD)
        else:
            self._states.drop(key)

    def forget_thread(self, thread_id: ThreadId) -> None:
        for key in self._states.keys():
            if key.thread_id == thread_id:
                self._states.drop(key)
