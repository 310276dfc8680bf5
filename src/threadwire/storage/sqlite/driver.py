"""Open a data directory and assemble the storage."""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import apsw
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.records import Run
from threadwire.errors import DataDirectoryLocked, StorageError, StorageFailed, StorageFull
from threadwire.storage.abc import Keys, Storage
from threadwire.storage.log_watchers import LocalWatchers
from threadwire.storage.serializer import strict_serializer
from threadwire.storage.sqlite.assistants import SqliteAssistants
from threadwire.storage.sqlite.checkpoints import SqliteCheckpoints
from threadwire.storage.sqlite.crons import SqliteCrons
from threadwire.storage.sqlite.deliveries import SqliteDeliveries
from threadwire.storage.sqlite.disk_space import DiskSpace
from threadwire.storage.sqlite.fold_snapshots import SqliteFoldSnapshots
from threadwire.storage.sqlite.integrity import require_database, translate_open_errors
from threadwire.storage.sqlite.items import SqliteItems
from threadwire.storage.sqlite.keys import SqliteKeys
from threadwire.storage.sqlite.keys_file import open_keys_file
from threadwire.storage.sqlite.log import SqliteLog
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.run_handle import SqliteRunHandle
from threadwire.storage.sqlite.runs import SqliteRuns
from threadwire.storage.sqlite.schema import open_writer
from threadwire.storage.sqlite.tail_cache import TailCache
from threadwire.storage.sqlite.threads import SqliteThreads
from threadwire.storage.sqlite.tickets import SqliteTickets
from threadwire.storage.sqlite.upkeep import Upkeep
from threadwire.storage.sqlite.write_ahead_log import WriteAheadLog
from threadwire.storage.sqlite.writer import Writer

KEYS_FILE = "keys.db"
_TAIL_BYTES = 32 * 1024 * 1024


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class SqliteStorage:
    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        tails: TailCache,
        watchers: LocalWatchers,
        clock: Callable[[], int],
        serializer: SerializerProtocol,
        space: DiskSpace,
        keys_file: apsw.Connection,
    ) -> None:
        self._writer = writer
        self._space = space
        self._clock = clock
        self.log = SqliteLog(writer, readers, tails, watchers, clock)
        self.checkpoints = SqliteCheckpoints(writer, readers, serializer)
        self.threads = SqliteThreads(writer, readers, clock, self.checkpoints)
        self.runs = SqliteRuns(writer, readers)
        self.assistants = SqliteAssistants(writer, readers)
        self.crons = SqliteCrons(writer, readers)
        self.deliveries = SqliteDeliveries(writer, readers)
        self.items = SqliteItems(writer, readers)
        self.fold_snapshots = SqliteFoldSnapshots(writer, readers)
        self.keys = SqliteKeys(keys_file)
        self.tickets = SqliteTickets(keys_file)

    def handle(self, run: Run) -> SqliteRunHandle:
        return SqliteRunHandle(run, self._writer, self.checkpoints, self._clock)

    @property
    def fatal_error(self) -> StorageFailed | None:
        return self._writer.fatal_error

    @property
    def write_error(self) -> StorageFull | None:
        return self._space.error() if self._space.full else None

    async def wait_for_failure(self) -> None:
        await self._writer.wait_for_failure()


@asynccontextmanager
async def open_sqlite_storage(
    directory: Path, *, clock: Callable[[], int] = now_ms, serializer: SerializerProtocol | None = None
) -> AsyncIterator[Storage]:
    """Open the storage in `directory/threadwire.db` on the running event loop.

    Raises `DataDirectoryLocked` if another process uses the directory, and `StorageDamaged` if the database is damaged.
    On exit everything that was enqueued is made durable. This blocks the event loop, so that a cancellation cannot
    interrupt it.
    """
    with ExitStack() as stack:
        stack.enter_context(_locked(directory))
        path = directory / "threadwire.db"
        require_database(path)
        tails, watchers = TailCache(_TAIL_BYTES), LocalWatchers()
        with translate_open_errors(path):
            space = DiskSpace(directory)
            db = open_writer(path)
            stack.callback(db.close)
            wal = WriteAheadLog(db, path)
            stack.callback(wal.close)
            readers = Readers(path)
            stack.callback(readers.close)
            writer = Writer(db, wal, tails, watchers, asyncio.get_running_loop(), space)
            stack.callback(writer.close)
            stack.callback(Upkeep(writer, readers, space, tails).close)
        keys_file = stack.enter_context(open_keys_file(directory / KEYS_FILE))
        serializer = serializer or strict_serializer()
        yield SqliteStorage(writer, readers, tails, watchers, clock, serializer, space, keys_file)


@asynccontextmanager
async def open_sqlite_keys(directory: Path) -> AsyncIterator[Keys]:
    """Open only the API keys in `directory`, which a server may be using."""
    try:
        _create(directory)
    except OSError as error:
        raise _unusable(directory, error) from error
    with open_keys_file(directory / KEYS_FILE) as db:
        yield SqliteKeys(db)


def _create(directory: Path) -> None:
    """Create the directory. It is usually inside a repository, so it contains a .gitignore that covers all of it."""
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / ".gitignore").write_text("*\n")


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the directory's lock, which proves that no other process uses the directory and that the previous one has
    ended. A process that the project's code forks must close the lock, or it would hold it after this process
    has ended."""
    try:
        _create(directory)
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(directory, error) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataDirectoryLocked(
                f"The data directory {directory} is in use by another Threadwire process. "
                "Stop that process, or use another data directory."
            ) from None
        except OSError as error:  # some file systems do not support locks
            raise _unusable(directory, error) from error
        _locks.add(handle)
        yield
    finally:
        _locks.discard(handle)
        os.close(handle)


_locks: set[int] = set()


def _close_locks() -> None:
    while _locks:
        os.close(_locks.pop())


os.register_at_fork(after_in_child=_close_locks)


def _unusable(directory: Path, error: OSError) -> StorageError:
    return StorageError(f"The data directory {directory} cannot be used: {error.strerror or error}.")
