"""Background work: return free pages to the disk, notice when a full disk has room again, and drop what is
cached but unused.

Deleted data leaves free pages in the file, which SQLite reuses but does not return. The file is shrunk in small steps,
each a job in the writer's queue like any other, with pauses in between: other jobs never wait for more than one step.
"""

import threading
import time
from contextlib import suppress

import apsw
import structlog

from threadwire.errors import StorageError
from threadwire.storage.sqlite.disk_space import DiskSpace
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.tail_cache import TailCache
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.write_jobs import MAX_WRITE_THROUGH_BYTES, Operation
from threadwire.storage.sqlite.writer import Writer

_log = structlog.get_logger(__name__)

INTERVAL = 5.0
"""Seconds between two checks for free pages."""
FULL_INTERVAL = 1.0
"""The same while the disk is full. Each check then also checks for room."""
STEP_PAGES = 128
"""Pages that one job returns. Each may have to be replaced by one from the end of the file."""
UNUSED_SECONDS = 15.0
"""Seconds after which the cached tail of a thread that nothing reads is dropped; it may take up to twice as long.
The caches of the writer are dropped at the same interval."""
MAX_SHARE = 0.2
"""The part of the writer's time that steps may take."""
MIN_FREE_PAGES = 1000
MIN_FREE_PART = 8
"""The file is shrunk if at least `MIN_FREE_PAGES` are free, and at least one page in `MIN_FREE_PART`. The next writes
can use free pages, so returning only a few would make the file shrink and grow again and again. While the disk is full,
any free page is returned."""

_INCREMENTAL = 2
_COMMAND = "sqlite3 threadwire.db 'PRAGMA auto_vacuum = INCREMENTAL; VACUUM'"


class Upkeep:
    """A thread that ends with `close`."""

    def __init__(self, writer: Writer, readers: Readers, space: DiskSpace, tails: TailCache) -> None:
        self._tails = tails
        self._drop_due = time.monotonic() + UNUSED_SECONDS
        self._writer = writer
        self._readers = readers
        self._space = space
        self._closed = threading.Event()
        self._can_shrink = readers.run(lambda db: db.pragma("auto_vacuum")) == _INCREMENTAL
        if not self._can_shrink:
            _log.warning(
                "vacuum_disabled", effect="The file never shrinks.", hint=f"Stop the server, then run {_COMMAND}"
            )
        self._thread = threading.Thread(target=self._run, name="threadwire-sqlite-upkeep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Return when the thread has ended. Called before the writer is closed."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(FULL_INTERVAL if self._space.full else INTERVAL):
            self._drop_cached()
            with suppress(StorageError):  # a failed storage is reported by the writer
                if self._can_shrink and self._pays():
                    self._shrink()
                self._space.check()
                self._writer.extend_log()

    def _drop_cached(self) -> None:
        if time.monotonic() >= self._drop_due:
            self._tails.drop_unused()
            self._writer.drop_cached()
            self._drop_due = time.monotonic() + UNUSED_SECONDS

    def _pays(self) -> bool:
        free, pages = self._readers.run(_free_and_all)
        if self._space.full:
            return free > 0
        return free >= MIN_FREE_PAGES and free * MIN_FREE_PART >= pages

    def _shrink(self) -> None:
        returned = 0
        while not self._closed.is_set():
            started = time.monotonic()
            step = self._step()
            if step <= 0:
                break
            returned += step
            self._closed.wait((time.monotonic() - started) * (1 / MAX_SHARE - 1))
        self._writer.checkpoint()  # the file itself shrinks only now
        if returned:
            _log.info("database_shrunk", count=returned, bytes=returned * 4096)

    def _step(self) -> int:
        """Return one step's pages to the disk. Returns their number."""
        job = Operation(_return_pages, weight=MAX_WRITE_THROUGH_BYTES, essential=True)
        self._writer.enqueue(job, urgent=True)
        job.block_or_raise()
        return job.result


def _return_pages(transaction: Transaction) -> int:
    db = transaction.db
    before = db.pragma("freelist_count")
    db.execute(f"PRAGMA incremental_vacuum({STEP_PAGES})").fetchall()
    return int(before - db.pragma("freelist_count"))


def _free_and_all(db: apsw.Connection) -> tuple[int, int]:
    return db.pragma("freelist_count"), db.pragma("page_count")
