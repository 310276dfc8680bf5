"""The thread log: appended through the writer's queue, read from the tail cache or from the segments on disk."""

from collections.abc import Callable, Sequence
from functools import partial

import apsw

from threadwire.core.entries import Draft, Entry
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import LogCounters
from threadwire.errors import NotFound
from threadwire.storage.log_watchers import LocalWakeup, LocalWatchers
from threadwire.storage.segments import encode, unpack
from threadwire.storage.sqlite.id_keys import key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.tail_cache import TailCache
from threadwire.storage.sqlite.write_jobs import AppendJob
from threadwire.storage.sqlite.writer import Writer

# Starts with the segment that contains the entry after `after`. Segments of other runs are skipped without being read.
_SEGMENTS = """
SELECT first_seq, run, attempt, at, packed, data FROM segments
 WHERE thread = ?1 AND first_seq >= ifnull(
   (SELECT first_seq FROM segments WHERE thread = ?1 AND first_seq <= ?2 + 1 ORDER BY first_seq DESC LIMIT 1), 0)
   AND (?3 IS NULL OR run = ?3)
 ORDER BY first_seq LIMIT ?4
"""


class SqliteLog:
    def __init__(
        self, writer: Writer, readers: Readers, tails: TailCache, watchers: LocalWatchers, clock: Callable[[], int]
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._tails = tails
        self._watchers = watchers
        self._clock = clock

    def append(self, thread_id: ThreadId, drafts: Sequence[Draft]) -> AppendJob:
        require_thread(self._readers, thread_id)
        return self._writer.append(thread_id, encode(drafts, self._clock), None)

    async def read(
        self, thread_id: ThreadId, after: Seq, *, limit: int = 1000, run_id: RunId | None = None
    ) -> list[Entry]:
        recent = self._tails.read(thread_id, after, limit, run_id)
        if recent is not None:
            return recent
        found = await self._readers.run_in_thread(partial(_read, thread_id, after, limit, run_id))
        # Checked after reading, so that it covers every entry that was read.
        last_visible = self._writer.last_visible_seq(thread_id)
        return found if last_visible is None else [entry for entry in found if entry.seq <= last_visible]

    async def last(self, thread_id: ThreadId) -> Seq:
        if (recent := self._tails.last(thread_id)) is not None:
            return recent
        with self._readers.lend() as db:
            sql = "SELECT first_seq + n - 1 FROM segments WHERE thread = ? ORDER BY first_seq DESC LIMIT 1"
            last = db.execute(sql, (key_of(thread_id),)).get or 0
        last_visible = self._writer.last_visible_seq(thread_id)
        return Seq(last if last_visible is None else min(last, last_visible))

    def watch(self, thread_id: ThreadId) -> LocalWakeup:
        return LocalWakeup(self._watchers, thread_id)

    def counters(self) -> LogCounters:
        return LogCounters(entries=self._writer.entries, commits=self._writer.commits)


def require_thread(readers: Readers, thread_id: ThreadId) -> None:
    with readers.lend() as db:
        if db.execute("SELECT 1 FROM threads WHERE thread = ?", (key_of(thread_id),)).get is None:
            raise NotFound(f"Thread {thread_id} not found")


def _read(thread_id: ThreadId, after: int, limit: int, run_id: RunId | None, db: apsw.Connection) -> list[Entry]:
    if run_id is not None:
        # A run's entries lie between its first and its last, so the rest of a long thread need not be read.
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
    rows.close()  # otherwise the read transaction would stay open
    return found[:limit]
