"""The database thread: everything that is read and written goes through it.

asyncpg's connections belong to one event loop. It is a separate loop, not the server's: graphs and synchronous callers
use the storage from other threads, and no loop that executes the project's code may delay a commit or a lease.

A change is a function of a transaction. It is executed again if another transaction changed the same rows first,
or if the connection was lost before the commit. If the connection was lost during the commit, the database is
asked whether the transaction was committed, so that nothing is ever lost or written twice. A database that crashed may
reuse the ids of transactions that it had not committed, so after a crash the entries themselves are read.
"""

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import asyncpg
import structlog
import uvloop

from threadwire.errors import StorageError, StorageFull, StorageUnavailable
from threadwire.storage.postgres.connections import Connection, Connections
from threadwire.storage.postgres.database_room import require_room
from threadwire.storage.postgres.failures import CONTENDED, LOST, translated, unavailable
from threadwire.storage.postgres.transaction import SegmentRow, Transaction

T = TypeVar("T")
Reading = Callable[[Connection], Awaitable[T]]
Change = Callable[[Transaction], Awaitable[T]]

POOL_SIZE = 8
PATIENCE = 3.0
"""Seconds for which an operation waits for a lost connection to return before it fails."""
RECONNECT_INTERVAL = 0.25
FULL_INTERVAL = 1.0
"""Seconds after which a full database is checked for room."""
MAX_CONTENTION = 20
_CLOSED = "The storage is closed."

_log = structlog.get_logger(__name__)


class Publisher(Protocol):
    def publish(self, transaction: Transaction) -> None:
        """Called on the database thread after each commit."""


class OutcomeUnknown(StorageUnavailable):
    """It is unknown whether a transaction was committed: the storage is being closed, or the database does not say."""


class _UnknownOutcome(NamedTuple):
    """A transaction whose connection was lost while it was being committed."""

    xid: str
    backend: int
    incarnation: str
    row: SegmentRow | None
    """One of the segments that it wrote."""


def _start(work: Coroutine[Any, Any, T], result: "asyncio.Future[T]") -> None:
    """Start the work on the current loop. Its outcome becomes that of `result`, which belongs to another loop."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(partial(_report, result))


def _report(result: "asyncio.Future[T]", ended: "asyncio.Task[T]") -> None:
    error = StorageError(_CLOSED) if ended.cancelled() else ended.exception()
    with suppress(RuntimeError):  # the loop of the caller is closed
        result.get_loop().call_soon_threadsafe(_resolve, result, ended, error)


def _resolve(result: "asyncio.Future[T]", ended: "asyncio.Task[T]", error: BaseException | None) -> None:
    if result.cancelled():  # the caller no longer waits
        return
    if error is None:
        result.set_result(ended.result())
    else:
        result.set_exception(error)


class Database:
    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self.publisher: Publisher | None = None
        self._connections: Connections
        self._closed = False
        self._probing = False
        self._was_lost = False
        self._full: StorageFull | None = None
        self._thread = threading.Thread(target=self._run_loop, name="threadwire-database", daemon=True)
        self._thread.start()
        self.run_blocking(self._start())

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def _start(self) -> None:
        self._connections = Connections(self.dsn, POOL_SIZE)

    def give_up(self) -> None:
        """Stop waiting for a lost connection."""
        self._closed = True

    def close(self) -> None:
        self._closed = True
        self.run_blocking(self._shut_down())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    @property
    def gave_up(self) -> bool:
        return self._closed

    async def _shut_down(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._connections.close()
        await asyncio.sleep(0)  # an aborted transport is closed in the next iteration of the loop

    @property
    def lost(self) -> StorageUnavailable | None:
        """Why the database cannot be reached now, or None."""
        lost = self._connections.lost
        return None if lost is None else StorageUnavailable(lost.message)

    @property
    def full(self) -> StorageFull | None:
        """Set while the database has no room. A small change may still fit into a page that exists."""
        return None if self._full is None else StorageFull(self._full.message)

    # Called on any thread

    async def read(self, reading: Reading[T]) -> T:
        return await self.run(self.read_here(reading))

    async def write(self, change: Change[T], *, patience: float = PATIENCE) -> T:
        """Execute a change, and return its result once it is durable. The change is completed even if the caller is
        cancelled."""
        return await self.run(self.write_here(change, patience=patience))

    def read_blocking(self, reading: Reading[T]) -> T:
        return self.run_blocking(self.read_here(reading))

    def write_blocking(self, change: Change[T]) -> T:
        return self.run_blocking(self.write_here(change))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the database thread. It is completed even if the caller is cancelled."""
        if self.loop.is_closed():
            work.close()
            raise StorageError(_CLOSED)
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # Not `wrap_future(run_coroutine_threadsafe())`: every operation needs this, and it takes three futures.
        self.loop.call_soon_threadsafe(_start, work, result)
        return await result

    def run_blocking(self, work: Coroutine[Any, Any, T]) -> T:
        assert threading.current_thread() is not self._thread, "the database thread cannot wait for itself"
        try:
            return self.submit(work).result()
        except CancelledError:
            raise StorageError(_CLOSED) from None

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        if self.loop.is_closed():
            work.close()
            raise StorageError(_CLOSED)
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    # Called on the database thread

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """Lend a connection. Its errors are not translated."""
        return self._connections.lend()

    async def read_here(self, reading: Reading[T]) -> T:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                async with self._connections.lend() as connection:
                    return await reading(connection)
            except LOST as error:
                await self.wait_for_connection(error, deadline)
            except asyncpg.PostgresError as error:
                raise translated(error) from error

    async def write_here(self, change: Change[T], *, patience: float = PATIENCE) -> T:
        deadline = time.monotonic() + patience
        contention = 0
        while True:
            try:
                return await self._write_once(change, deadline)
            except CONTENDED as error:
                contention += 1
                if contention == MAX_CONTENTION:
                    raise StorageUnavailable("Too many transactions compete for the same rows. Retry later.") from error
                await asyncio.sleep(0.001 * contention)
            except LOST as error:
                await self.wait_for_connection(error, deadline)
            except asyncpg.PostgresError as error:
                failure = translated(error)
                if isinstance(failure, StorageFull):
                    self._full = failure
                raise failure from error

    async def _write_once(self, change: Change[T], deadline: float) -> T:
        async with self._connections.lend() as connection:
            transaction = Transaction(connection)
            incarnation = self._connections.incarnation_of(connection)
            result, xid, unknown = await _execute(connection, incarnation, transaction, change)
        if unknown is not None and not await self._was_committed(unknown):
            raise ConnectionError("the connection was lost before the commit")
        if xid is not None and self.publisher is not None:
            self.publisher.publish(transaction)
        return result

    async def _was_committed(self, unknown: _UnknownOutcome) -> bool:
        """Ask the database whether a transaction was committed, however long it takes to reach it. The server may still
        have the old connection open; it is closed, because otherwise it could commit later."""
        while True:
            try:
                async with self._connections.lend() as connection:
                    status = await _transaction_status(connection, unknown)
                    if status == "committed" and self._connections.incarnation_of(connection) != unknown.incarnation:
                        status = await _status_after_crash(connection, unknown)
                if status is None:
                    raise OutcomeUnknown("The database no longer knows whether the last change was committed.")
                if status != "in progress":
                    _log.info("commit_outcome_resolved", outcome=status)
                    return status == "committed"
                await asyncio.sleep(0.02)
            except LOST as error:
                try:
                    await self.wait_for_connection(error, math.inf)
                except StorageUnavailable as closing:
                    raise OutcomeUnknown(closing.message) from closing
            except asyncpg.PostgresError as error:
                raise OutcomeUnknown(translated(error).message) from error

    async def wait_for_connection(self, error: BaseException, deadline: float) -> None:
        """Return when the database can be reached again. Raises `StorageUnavailable` at the deadline."""
        if isinstance(error, ValueError):  # asyncpg rejected an argument
            raise StorageError(f"A value cannot be stored: {error}") from error
        self._connections.forget_idle()
        if not self._was_lost:
            self._was_lost = True
            self._connections.lost = self._connections.lost or unavailable(error)
            _log.warning("database_lost", error=self._connections.lost.message)
        while self._connections.lost is not None:
            if self._closed or time.monotonic() >= deadline:
                raise StorageUnavailable(self._connections.lost.message) from error
            await self._probe()
            if self._connections.lost is not None:
                await asyncio.sleep(RECONNECT_INTERVAL)

    async def keep_connected(self) -> None:
        """Notice that a lost database has returned, or that a full one has room, even if nothing uses it."""
        while True:
            await asyncio.sleep(RECONNECT_INTERVAL)
            if self._connections.lost is not None:
                await self._probe()
            elif self._full is not None:
                await asyncio.sleep(FULL_INTERVAL)
                await self._probe_room()

    async def _probe_room(self) -> None:
        """Workers start no runs while the database is full, so perhaps no other write would notice the room."""
        with suppress(*LOST, asyncpg.PostgresError):
            async with self._connections.lend() as connection:
                await require_room(connection)
                self._full = None

    async def _probe(self) -> None:
        """Try to connect, unless another caller is doing so."""
        if self._probing:
            return
        self._probing = True
        try:
            async with self._connections.lend():
                self._was_lost = False
                _log.info("database_reconnected")
        except LOST:
            return
        finally:
            self._probing = False


async def _execute(
    connection: Connection, incarnation: str, transaction: Transaction, change: Change[T]
) -> tuple[T, str | None, _UnknownOutcome | None]:
    """Execute and commit a change. Returns its result, the id of its transaction (None if it changed nothing), and the
    transaction itself if it is unknown whether it was committed."""
    backend = connection.get_server_pid()
    await connection.execute("BEGIN")
    try:
        result = await change(transaction)
        xid = await transaction.write()
    except BaseException:
        await _roll_back(connection)
        raise
    unknown: _UnknownOutcome | None = None
    try:
        await connection.execute("COMMIT;")
    except LOST as error:
        connection.terminate()
        if xid is not None:
            _log.warning("commit_interrupted", error=str(error))
            unknown = _UnknownOutcome(xid, backend, incarnation, transaction.rows[0] if transaction.rows else None)
    return result, xid, unknown


async def _roll_back(connection: Connection) -> None:
    if not connection.is_closed():
        try:
            await connection.execute("ROLLBACK")
        except (*LOST, asyncpg.PostgresError):
            connection.terminate()


async def _transaction_status(connection: Connection, unknown: _UnknownOutcome) -> str | None:
    try:
        status: str | None = await connection.fetchval("SELECT pg_xact_status($1::text::xid8)", unknown.xid)
    except asyncpg.InvalidParameterValueError:  # a failover: the new server does not know the transaction
        return "aborted"
    if status == "in progress":
        await connection.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE pid = $1 AND backend_xid::text::bigint = $2::text::numeric % 4294967296""",
            unknown.backend,
            unknown.xid,
        )
    return status


async def _status_after_crash(connection: Connection, unknown: _UnknownOutcome) -> str | None:
    """The status of a transaction whose id counts as committed by a server that has crashed since. The server may have
    reused the id for another transaction, so only the rows of the transaction prove that it was committed."""
    if unknown.row is None:
        return None
    found = await connection.fetchrow(
        "SELECT run, attempt, data FROM segments WHERE thread = $1 AND first_seq = $2",
        unknown.row.thread,
        unknown.row.first,
    )
    written = (unknown.row.run, unknown.row.attempt, unknown.row.data)
    return "committed" if found is not None and tuple(found) == written else "aborted"
