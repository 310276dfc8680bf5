"""A receiver of hints that records them."""

import asyncio
from collections.abc import Callable

from threadwire.core.ids import ThreadId
from threadwire.core.records import QueueHint
from threadwire.storage.postgres.hints import SegmentHint

WITHIN = 30.0


class Received:
    def __init__(self) -> None:
        self.segments: list[SegmentHint] = []
        self.watched: list[ThreadId] = []
        self.queue: list[QueueHint] = []
        self.times_missed = 0
        self._grew = asyncio.Event()

    def segment_committed(self, hint: SegmentHint) -> None:
        self.segments.append(hint)
        self._grew.set()

    def watch_began(self, thread_id: ThreadId) -> None:
        self.watched.append(thread_id)
        self._grew.set()

    def queue_changed(self, hint: QueueHint) -> None:
        self.queue.append(hint)
        self._grew.set()

    def hints_missed(self) -> None:
        self.times_missed += 1
        self._grew.set()

    async def wait_for(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN):
            while not holds():
                self._grew.clear()
                await self._grew.wait()
