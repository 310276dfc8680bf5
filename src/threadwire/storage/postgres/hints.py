"""What the processes of a deployment announce to each other. A hint may be lost, late, repeated or out of order: the
tables are the source of truth, and hints only say when to read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import QueueHint


@dataclass(frozen=True, slots=True)
class SegmentHint:
    """A segment was committed, or a thread may have grown in another way."""

    thread_id: ThreadId
    first_seq: Seq
    count: int
    """How many entries the segment has; 0 if that has to be read from the table."""
    segment: bytes
    """The segment as stored; empty if it has to be read from the table."""

    @property
    def last_seq(self) -> int:
        return self.first_seq + self.count - 1


def unknown_growth(thread_id: ThreadId) -> SegmentHint:
    """The hint that a thread may have changed in any way."""
    return SegmentHint(thread_id, Seq(0), 0, b"")


class HintReceiver(Protocol):
    """Receives hints, on the event loop of the transport."""

    def segment_committed(self, hint: SegmentHint) -> None: ...

    def watch_began(self, thread_id: ThreadId) -> None:
        """The hints of this thread arrive from now on. Hints about earlier commits may have been missed."""

    def queue_changed(self, hint: QueueHint) -> None: ...

    def hints_missed(self) -> None:
        """The connection was lost for a while: any watched thread may have grown, and the queue may have changed."""


class HintTransport(Protocol):
    def publish(self, segments: Sequence[SegmentHint], queue: QueueHint = QueueHint.NOTHING) -> None:
        """Announce what was committed to all processes. Thread-safe; never blocks and never raises."""

    def watch(self, thread_id: ThreadId) -> None:
        """Start to receive the hints of this thread. `watch_began` is called when they have started to arrive."""

    def unwatch(self, thread_id: ThreadId) -> None: ...

    @property
    def is_connected(self) -> bool:
        """Whether hints arrive. Without them, everything still works, but later."""

    @property
    def missed(self) -> int:
        """How many hints this process could not send."""
