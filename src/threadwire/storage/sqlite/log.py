"""The thread log, over the writer's queue, the tails in memory and the segments on disk."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType

import apsw

from threadwire.core.entries import Draft, Entry, Fence
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import LogFigures
from threadwire.errors import NotFound
from threadwire.storage.sqlite.keys import key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.segments import encode, unpack
from threadwire.storage.sqlite.tails import Tails
from threadwire.storage.sqlite.works import Appending
from threadwire.storage.sqlite.writer import Writer

# From the segment that holds the entry after `after` on; one of another run is passed over without being opened.
_SEGMENTS = """
SELECT first_seq, run, attempt, at, packed, data FROM segments
 WHERE thread = ?1 AND first_seq >= ifnull(
   (SELECT first_seq FROM segments WHERE thread = ?1 AND first_seq <= ?2 + 1 ORDER BY first_seq DESC LIMIT 1), 0)
   AND (?3 IS NULL OR run = ?3)
 ORDER BY first_seq LIMIT ?4
"""


class SqliteLog:
    def __init__(
        self, writer: Writer, readers: Readers, tails: Tails, watchers: "LocalWatchers", clock: Callable[[], int]
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._tails = tails
        self._watchers = watchers
        self._clock = clock

    def append(self, thread_id: ThreadId, drafts: Sequence[Draft], fence: Fence | None = None) -> Appending:
        if fence is None:
            require_thread(self._readers, thread_id)
        return self._writer.append(thread_id, encode(drafts, self._clock), fence)

    @property
    def crowded(self) -> bool:
        return self._writer.crowded

    async def room(self) -> None:
        await self._writer.room()

    async def read(
        self, thread_id: ThreadId, after: Seq, *, limit: int = 1000, run_id: RunId | None = None
    ) -> list[Entry]:
        recent = self._tails.read(thread_id, after, limit, run_id)
        if recent is not None:
            return recent
        found = await self._readers.elsewhere(partial(_read, thread_id, after, limit, run_id))
        # Asked after reading: what has been written meanwhile is in neither.
        shown = self._writer.shown(thread_id)
        return found if shown is None else [entry for entry in found if entry.seq <= shown]

    async def last(self, thread_id: ThreadId) -> Seq:
        if (recent := self._tails.last(thread_id)) is not None:
            return recent
        with self._readers.lend() as db:
            sql = "SELECT first_seq + n - 1 FROM segments WHERE thread = ? ORDER BY first_seq DESC LIMIT 1"
            last = db.execute(sql, (key_of(thread_id),)).get or 0
        shown = self._writer.shown(thread_id)
        return Seq(last if shown is None else min(last, shown))

    def watch(self, thread_id: ThreadId) -> "LocalWakeup":
        return LocalWakeup(self._watchers, thread_id)

    def figures(self) -> LogFigures:
        return LogFigures(entries=self._writer.entries, commits=self._writer.commits)


def require_thread(readers: Readers, thread_id: ThreadId) -> None:
    with readers.lend() as db:
        if db.execute("SELECT 1 FROM threads WHERE thread = ?", (key_of(thread_id),)).get is None:
            raise NotFound(f"Thread {thread_id} not found")


def _read(thread_id: ThreadId, after: int, limit: int, run_id: RunId | None, db: apsw.Connection) -> list[Entry]:
    if run_id is not None:
        # A run's entries lie between its first and its last, so the rest of a long thread need not be looked at.
        bounds = db.execute("SELECT queued_seq, ended_seq FROM runs WHERE run = ?", (key_of(run_id),)).get
        if bounds is not None:
            queued, ended = bounds
            after = max(after, queued - 1)
            if ended is not None and after >= ended:
                return []
    found: list[Entry] = []
    run = None if run_id is None else key_of(run_id)
    rows = db.execute(_SEGMENTS, (key_of(thread_id), after, run, limit))
    for first, author, attempt, at, packed, data in rows:
        run_of = None if author is None else RunId(name_of(author))
        found += unpack(first, run_of, attempt, at, packed, data, skip=max(0, after + 1 - first))
        if len(found) >= limit:
            break
    rows.close()  # or the read transaction would stay open
    return found[:limit]


class LocalWakeup:
    """Hints for one watcher, on the storage's loop, while its block lasts. Small: every open stream has one."""

    __slots__ = ("_hinted", "_thread_id", "_waiter", "_watchers")

    def __init__(self, watchers: "LocalWatchers", thread_id: ThreadId) -> None:
        self._watchers = watchers
        self._thread_id = thread_id
        self._hinted = False
        self._waiter: asyncio.Future[bool] | None = None

    def __enter__(self) -> "LocalWakeup":
        self._watchers.add(self._thread_id, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watchers.remove(self._thread_id, self)

    def hint(self) -> None:
        if self._waiter is None or self._waiter.done():
            self._hinted = True
        else:
            self._waiter.set_result(True)

    async def wait(self, timeout: float) -> bool:
        if self._hinted:
            self._hinted = False
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        # Not `asyncio.timeout`: this is awaited for every entry by every follower, and a timer is a tenth of the cost.
        timer = loop.call_later(timeout, _expire, waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None


def _expire(waiter: "asyncio.Future[bool]") -> None:
    if not waiter.done():
        waiter.set_result(False)


class LocalWatchers:
    """Changed on the storage's loop only; the writer merely looks whether anybody watches.

    That is enough: a commit is readable before the writer looks, so who begins to watch just afterwards reads it.
    """

    def __init__(self) -> None:
        self._watchers: dict[ThreadId, list[LocalWakeup]] = {}

    def add(self, thread_id: ThreadId, wakeup: LocalWakeup) -> None:
        self._watchers.setdefault(thread_id, []).append(wakeup)

    def remove(self, thread_id: ThreadId, wakeup: LocalWakeup) -> None:
        watching = self._watchers[thread_id]
        watching.remove(wakeup)
        if not watching:
            del self._watchers[thread_id]

    def watched(self, threads: Iterable[ThreadId]) -> list[ThreadId]:
        return [thread_id for thread_id in threads if thread_id in self._watchers]

    def hint(self, threads: list[ThreadId]) -> None:
        for thread_id in threads:
            for wakeup in self._watchers.get(thread_id, ()):
                wakeup.hint()
