"""The connections on which the server waits for the client, and for how long.

Each connection waits in at most one phase. Within a phase all connections have the same timeout, so they expire in the
order in which they started to wait: a queue per phase is enough, and a request costs no timer.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from threadwire.http.streaming import SEND_TIMEOUT


class Phase(Enum):
    """What the server waits for."""

    IDLE = "idle"
    """The next request of a connection that has had one."""
    HEAD = "head"
    """The request line and headers."""
    BODY = "body"
    """The rest of a request body."""
    RESPONSE = "response"
    """The client to read the response."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    max_connections: int = 10_000
    idle_seconds: float = 15.0
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    response_seconds: float = SEND_TIMEOUT

    def seconds(self, phase: Phase) -> float:
        return {
            Phase.IDLE: self.idle_seconds,
            Phase.HEAD: self.head_seconds,
            Phase.BODY: self.body_seconds,
            Phase.RESPONSE: self.response_seconds,
        }[phase]


class WaitingConnection(Protocol):
    def makes_progress(self, phase: Phase, seconds: float) -> bool:
        """Whether the client has done enough, in the seconds since the wait started, to get the same time again."""

    def give_up(self, phase: Phase) -> None:
        """Close the connection, because the client took too long or another client needs a connection."""


_Clock = Callable[[], float]
_FOR_REQUESTS = (Phase.IDLE, Phase.HEAD, Phase.BODY)


class WaitingConnections:
    def __init__(self, limits: ConnectionLimits | None = None, clock: _Clock = time.monotonic) -> None:
        self.limits = limits or ConnectionLimits()
        self._clock = clock
        self._waiting: dict[Phase, dict[WaitingConnection, float]] = {phase: {} for phase in Phase}
        """The time at which each wait started, oldest first."""
        self.connections: set[Any] = set()
        """All open connections, waiting or not, including WebSockets."""
        self.rejected = 0
        """Number of requests and connections that were rejected because there were too many."""
        self.closed: Counter[Phase] = Counter()
        """Number of connections that were closed while the server waited for the client."""

    def count_rejection(self) -> None:
        self.rejected += 1

    def start(self, connection: WaitingConnection, phase: Phase) -> None:
        self._waiting[phase][connection] = self._clock()

    def stop(self, connection: WaitingConnection, phase: Phase) -> None:
        self._waiting[phase].pop(connection, None)

    def close_expired(self) -> None:
        now = self._clock()
        for phase, waiting in self._waiting.items():
            timeout = self.limits.seconds(phase)
            while waiting:
                connection, since = next(iter(waiting.items()))
                if now - since < timeout:
                    break
                del waiting[connection]
                if connection.makes_progress(phase, now - since):
                    waiting[connection] = now
                else:
                    self._give_up(connection, phase)

    def make_room(self) -> bool:
        """Close the connection on which the server has waited longest for a request or the rest of one. Return False if
        there is none."""
        oldest = [(*next(iter(self._waiting[phase].items())), phase) for phase in _FOR_REQUESTS if self._waiting[phase]]
        if not oldest:
            return False
        connection, _, phase = min(oldest, key=lambda each: each[1])
        del self._waiting[phase][connection]
        self._give_up(connection, phase)
        return True

    def _give_up(self, connection: WaitingConnection, phase: Phase) -> None:
        self.closed[phase] += 1
        connection.give_up(phase)
