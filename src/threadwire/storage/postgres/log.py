"""The thread log: appended through the flusher's queue, read from the segments."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from threadwire.core.entries import Draft, Entry
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import LogCounters
from threadwire.storage.log_watchers import LocalWakeup
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.flusher import Flusher
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.publication import Publication
from threadwire.storage.postgres.write_jobs import AppendJob
from threadwire.storage.segments import encode, unpack

# Starts with the segment that contains the entry after `after`. Segments of other runs are skipped without being read,
# and so are the partitions before the thread's first day and after its last.
_SEGMENTS = """
SELECT first_seq, run, attempt, at, packed, data FROM segments
 WHERE thread = $1 AND ($3::bytea IS NULL OR run = $3)
   AND day >= (SELECT since FROM thread_heads WHERE thread = $1)
   AND day <= (SELECT until FROM thread_heads WHERE thread = $1)
   AND first_seq + n > $2::bigint + 1 AND first_seq >= coalesce(
     (SELECT first_seq FROM segments WHERE thread = $1 AND first_seq <= $2::bigint + 1
         AND day >= (SELECT since FROM thread_heads WHERE thread = $1)
         AND day <= (SELECT until FROM thread_heads WHERE thread = $1)
       ORDER BY first_seq DESC LIMIT 1), 0)
 ORDER BY first_seq LIMIT $4
"""
_PAGE = 50
"""Segments that are fetched at once."""


class PostgresLog:
    def __init__(
        self, database: Database, flusher: Flusher, publication: Publication, clock: Callable[[], int]
    ) -> None:
        self._database = database
        self._flusher = flusher
        self._publication = publication
        self._clock = clock

    def append(self, thread_id: ThreadId, drafts: Sequence[Draft]) -> AppendJob:
        return self._flusher.append(thread_id, encode(drafts, self._clock), None)

    async def read(
        self, thread_id: ThreadId, after: Seq, *, limit: int = 1000, run_id: RunId | None = None
    ) -> list[Entry]:
        live = self._publication.read_live(thread_id, after, limit, run_id)
        return live or await self._database.read(lambda db: _read(db, thread_id, after, limit, run_id))

    async def last(self, thread_id: ThreadId) -> Seq:
        sql = "SELECT last_seq FROM thread_heads WHERE thread = $1"
        last: int | None = await self._database.read(lambda db: db.fetchval(sql, key_of(thread_id)))
        return Seq(last or 0)

    def watch(self, thread_id: ThreadId) -> LocalWakeup:
        return self._publication.watch(thread_id)

    def counters(self) -> LogCounters:
        flusher = self._flusher
        return replace(
            self._publication.counters(), append_seconds=flusher.append_seconds, flush_seconds=flusher.flush_seconds
        )


async def _read(db: Connection, thread_id: ThreadId, after: int, limit: int, run_id: RunId | None) -> list[Entry]:
    if run_id is not None:
        # A run's entries lie between its first and its last, so the rest of a long thread need not be read.
        bounds = await db.fetchrow("SELECT queued_seq, ended_seq FROM runs WHERE run = $1", key_of(run_id))
        if bounds is not None:
            queued, ended = bounds
            after = max(after, queued - 1)
            if ended is not None and after >= ended:
                return []
    found: list[Entry] = []
    run = None if run_id is None else key_of(run_id)
    while len(found) < limit:
        rows = await db.fetch(_SEGMENTS, key_of(thread_id), after, run, min(_PAGE, limit - len(found)))
        for first, author, attempt, at, packed, data in rows:
            run_of = None if author is None else RunId(name_of(author))
            found += unpack(first, run_of, attempt, at, packed, data, skip=max(0, after + 1 - first))
        if len(rows) < _PAGE or not found:
            break
        after = found[-1].seq
    return found[:limit]
