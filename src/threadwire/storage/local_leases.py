"""Leases in a database that one process owns.

Such a database has one clock: that of its process. The leases of an earlier process have expired with that process, so
they need not be stored, and renewing one costs no write. The clock is monotonic: setting the system's clock, or
suspending the machine, expires no lease.
"""

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from threadwire.core.ids import ThreadId
from threadwire.core.records import Lease

Key = TypeVar("Key", bound=Hashable)


_EXPIRED = -1
"""The expiry time of a lease that `expire` has ended early. It is not renewed (8.2a)."""


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class LocalLeases(Generic[Key]):
    """Thread-safe: every method is a few operations on a dictionary, each of them atomic."""

    def __init__(self, clock: Callable[[], int] = monotonic_ms) -> None:
        self._clock = clock
        self._leases: dict[Key, tuple[str, int]] = {}
        """The worker that holds each key, and when its lease expires."""

    def grant(self, key: Key, lease: Lease) -> None:
        self._leases[key] = lease.worker, self._clock() + lease.milliseconds

    def end(self, key: Key) -> None:
        self._leases.pop(key, None)

    def is_live(self, key: Key) -> bool:
        _, expires_at = self._leases.get(key, ("", 0))
        return expires_at > self._clock()

    def is_held_by(self, worker: str, key: Key) -> bool:
        """Whether the last lease of the key is the worker's, expired or not."""
        return self._leases.get(key, ("", 0))[0] == worker

    def live(self) -> list[Key]:
        now = self._clock()
        return [key for key, (_, expires_at) in self._leases.copy().items() if expires_at > now]

    def expire(self, worker: str) -> None:
        """Expire all leases of the worker now."""
        for key in self._renewable(worker):
            self._leases[key] = worker, _EXPIRED

    def renew(self, lease: Lease) -> list[Key]:
        """Extend all leases of the worker, and return their keys."""
        renewed = self._renewable(lease.worker)
        for key in renewed:
            self.grant(key, lease)
        return renewed

    def _renewable(self, worker: str) -> list[Key]:
        leases = self._leases.copy().items()
        return [key for key, (holder, expires_at) in leases if holder == worker and expires_at != _EXPIRED]


class LocalHolds:
    """The holds on threads, each of one worker. Thread-safe."""

    def __init__(self) -> None:
        self._holds: LocalLeases[tuple[ThreadId, str]] = LocalLeases()

    def hold(self, thread_id: ThreadId, lease: Lease) -> None:
        self._holds.grant((thread_id, lease.worker), lease)

    def end(self, thread_id: ThreadId, worker: str) -> None:
        self._holds.end((thread_id, worker))

    def renew(self, lease: Lease) -> None:
        self._holds.renew(lease)

    def expire(self, worker: str) -> None:
        self._holds.expire(worker)

    def held_threads(self) -> set[ThreadId]:
        return {thread_id for thread_id, _ in self._holds.live()}
