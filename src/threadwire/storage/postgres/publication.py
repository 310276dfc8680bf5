"""What happens after a commit: the watchers of this process are woken, and the other processes get hints."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress

from threadwire.core.entries import Entry
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import LogCounters, QueueHint
from threadwire.storage.log_watchers import LocalWakeup, LocalWatchers
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.hints import HintTransport, SegmentHint, unknown_growth
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.live_tails import CommittedSegment, LiveTails, hint_of, received
from threadwire.storage.postgres.notify_hints import open_notify_hints
from threadwire.storage.postgres.redis_hints import open_redis_hints
from threadwire.storage.postgres.transaction import Transaction
from threadwire.storage.queue_hints import QueueHints

POLL_INTERVAL = 1.0
POLL_INTERVAL_WITHOUT_HINTS = 0.25
_LAST = "SELECT thread, last_seq FROM thread_heads WHERE thread = ANY($1)"


class Publication:
    """Watchers belong to the storage's event loop; hints arrive on the database thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()
        self._watchers = LocalWatchers()
        self._watched: dict[ThreadId, int] = {}
        """The last seq of each watched thread that its watchers were woken for. Used on the database thread only."""
        self._begun: set[ThreadId] = set()
        self._has_begun = asyncio.Event()
        self._opened = AsyncExitStack()
        self._checking: list[asyncio.Task[None]] = []
        self._tails = LiveTails()
        self.queue_hints = QueueHints()
        self.transport: HintTransport | None = None
        self.entries = 0
        self.commits = 0

    async def open(self, redis: str | None) -> None:
        """Called on the database thread."""
        if redis is None:
            opening = open_notify_hints(self._database.dsn, self)
        else:
            async with self._database.connection() as connection:
                deployment = await connection.fetchval("SELECT id::text FROM deployment")
            opening = open_redis_hints(redis, deployment, self)
        self.transport = await self._opened.enter_async_context(opening)
        self._checking = [asyncio.ensure_future(self._poll()), asyncio.ensure_future(self._check_begun())]

    async def close(self) -> None:
        """Called on the database thread."""
        for task in self._checking:
            task.cancel()
        await asyncio.gather(*self._checking, return_exceptions=True)
        await self._opened.aclose()

    def counters(self) -> LogCounters:
        transport = self.transport
        return LogCounters(
            entries=self.entries,
            commits=self.commits,
            hints_missed=0 if transport is None else transport.missed,
            hints_connected=transport is not None and transport.is_connected,
        )

    # Called on the storage's event loop

    def read_live(self, thread_id: ThreadId, after: Seq, limit: int, run_id: RunId | None) -> list[Entry]:
        """Return the entries from `after` on that are in memory. If there are none, the table has to be read."""
        return self._tails.read(thread_id, after, limit, run_id)

    def watch(self, thread_id: ThreadId) -> LocalWakeup:
        return LocalWakeup(self, thread_id)

    def add(self, thread_id: ThreadId, wakeup: LocalWakeup) -> None:
        self._watchers.add(thread_id, wakeup)
        self._database.loop.call_soon_threadsafe(self._start_watching, thread_id)

    def remove(self, thread_id: ThreadId, wakeup: LocalWakeup) -> None:
        self._watchers.remove(thread_id, wakeup)
        with suppress(RuntimeError):  # the storage is closed
            self._database.loop.call_soon_threadsafe(self._stop_watching, thread_id)

    # Called on the database thread

    def _start_watching(self, thread_id: ThreadId) -> None:
        if thread_id not in self._watched and self._watchers.watched([thread_id]):
            self._watched[thread_id] = 0
            if self.transport is not None:
                self.transport.watch(thread_id)

    def _stop_watching(self, thread_id: ThreadId) -> None:
        if thread_id in self._watched and not self._watchers.watched([thread_id]):
            del self._watched[thread_id]
            self._tails.forget(thread_id)
            if self.transport is not None:
                self.transport.unwatch(thread_id)

    def publish(self, transaction: Transaction) -> None:
        segments = transaction.segments
        self.entries += sum(len(segment.entries) for segment in segments)
        self.commits += 1
        for thread_id in transaction.forgotten:
            self._forget(thread_id)
        for segment in segments:
            self._keep(segment.thread_id, segment)
        grown = {segment.thread_id for segment in segments} | transaction.forgotten
        self._wake(grown)
        self.queue_hints.hint(transaction.hints)
        if self.transport is not None and (grown or transaction.hints):
            self.transport.publish(_hints_of(transaction), transaction.hints)

    def segment_committed(self, hint: SegmentHint) -> None:
        if not hint.count:  # the thread may have been deleted
            self._forget(hint.thread_id)
        elif self._watched.get(hint.thread_id) == hint.last_seq:
            return  # this process has committed it, or was hinted twice
        elif (segment := received(hint)) is not None:
            self._keep(hint.thread_id, segment)
        self._wake([hint.thread_id])

    def _keep(self, thread_id: ThreadId, segment: CommittedSegment) -> None:
        if thread_id in self._watched:
            self._watched[thread_id] = segment.last
            self._tails.add(thread_id, segment)

    def _forget(self, thread_id: ThreadId) -> None:
        self._tails.forget(thread_id)
        if thread_id in self._watched:
            self._watched[thread_id] = 0

    def watch_began(self, thread_id: ThreadId) -> None:
        self._begun.add(thread_id)
        self._has_begun.set()

    def queue_changed(self, hint: QueueHint) -> None:
        self.queue_hints.hint(hint)

    def hints_missed(self) -> None:
        self._wake([*self._watched])
        self.queue_hints.hint(QueueHint.WORK | QueueHint.STOPS)

    def _wake(self, threads: Iterable[ThreadId]) -> None:
        if watched := self._watchers.watched(threads):
            with suppress(RuntimeError):  # the storage's loop is closed, so nothing waits on it
                self._loop.call_soon_threadsafe(self._watchers.hint, watched)

    async def _check_begun(self) -> None:
        """Find what was committed between the start of a watch and the first hint that it could receive."""
        while True:
            await self._has_begun.wait()
            self._has_begun.clear()
            begun, self._begun = self._begun, set()
            with suppress(Exception):  # the next poll may succeed
                await self._wake_grown(begun)

    async def _poll(self) -> None:
        """Find what no hint has announced."""
        while True:
            connected = self.transport is not None and self.transport.is_connected
            await asyncio.sleep(POLL_INTERVAL if connected else POLL_INTERVAL_WITHOUT_HINTS)
            if self._watched and self._database.lost is None:
                with suppress(Exception):  # the next poll may succeed
                    await self._wake_grown(self._watched)

    async def _wake_grown(self, threads: Iterable[ThreadId]) -> None:
        keys = [key_of(thread_id) for thread_id in threads]
        async with self._database.connection() as connection:
            rows = await connection.fetch(_LAST, keys)
        grown: list[ThreadId] = []
        for key, last in rows:
            thread_id = ThreadId(name_of(key))
            if self._watched.get(thread_id, last) != last:
                self._watched[thread_id] = last
                grown.append(thread_id)
        self._wake(grown)


def _hints_of(transaction: Transaction) -> list[SegmentHint]:
    hints = [hint_of(ThreadId(name_of(row.thread)), row) for row in transaction.rows]
    return [unknown_growth(thread_id) for thread_id in transaction.forgotten] + hints
