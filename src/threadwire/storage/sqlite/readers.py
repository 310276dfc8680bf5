"""A pool of read connections, lent for one call at a time so that no read transaction outlives the call (3.4)."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import apsw

from threadwire.errors import StorageUnavailable
from threadwire.storage.sqlite.integrity import READ_DAMAGE_ERRORS, damage_error
from threadwire.storage.sqlite.schema import open_reader

T = TypeVar("T")

_THREADS = 3


class Readers:
    """Thread-safe. `lend` is a context manager for a connection of the caller's own.

    A lookup by primary key takes 10 to 30 µs, less than a round trip to another thread, so lookups run on the caller's
    thread. `run_in_thread` is for queries that may take longer.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = str(path.absolute())
        self._idle: deque[apsw.Connection] = deque()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="threadwire-sqlite-reader")

    def lend(self) -> "_Loan":
        try:
            db = self._idle.pop()
        except IndexError:
            db = self._open()
        return _Loan(self._idle, db, self._file)

    def _open(self) -> apsw.Connection:
        try:
            return open_reader(self._path)
        except apsw.CantOpenError as error:
            raise _unavailable(error) from error

    async def run_in_thread(self, query: Callable[[apsw.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.run, query)

    def run(self, query: Callable[[apsw.Connection], T]) -> T:
        with self.lend() as db:
            return query(db)

    def close(self) -> None:
        self._threads.shutdown()
        while self._idle:
            self._idle.pop().close()


class _Loan:
    __slots__ = ("_db", "_file", "_idle")

    def __init__(self, idle: deque[apsw.Connection], db: apsw.Connection, file: str) -> None:
        self._idle = idle
        self._db = db
        self._file = file

    def __enter__(self) -> apsw.Connection:
        return self._db

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, READ_DAMAGE_ERRORS):
            self._db.close(True)  # it may have cached damaged pages
            raise damage_error(error, self._file) from error
        self._idle.append(self._db)
        if isinstance(error, apsw.CantOpenError):
            raise _unavailable(error) from error


def _unavailable(error: apsw.CantOpenError) -> StorageUnavailable:
    """SQLite cannot open a file that exists: the process has too many open files."""
    return StorageUnavailable(f"The database cannot be read now: {error}. Retry later.")
