"""Connections to the database, for use on the database thread only."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg

from threadwire.errors import StorageUnavailable
from threadwire.storage.postgres.failures import LOST, unavailable

Connection: TypeAlias = "asyncpg.Connection[Any]"

_INTERRUPTED: tuple[type[BaseException], ...] = (*LOST, asyncio.CancelledError)

CONNECT_TIMEOUT = 5.0
COMMAND_TIMEOUT = 20.0
"""Seconds after which a connection that does not respond counts as lost. More than the server's own timeout."""
_SETTINGS = {
    "application_name": "threadwire",
    "timezone": "UTC",
    "synchronous_commit": "on",
    "jit": "off",
    "lock_timeout": "15s",
    "statement_timeout": "18s",
    # A process that was stopped in a transaction must not hold its locks for longer than its leases.
    "idle_in_transaction_session_timeout": "10s",
    "client_connection_check_interval": "2s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


_INCARNATION = "SELECT concat_ws(' ', pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_wal))"
"""A text that changes when the server is restarted or recovers from a crash. Recovery resets the statistics."""


async def connect(dsn: str, *, command_timeout: float | None = None) -> Connection:
    connection: Connection = await asyncpg.connect(
        dsn,
        timeout=CONNECT_TIMEOUT,
        command_timeout=command_timeout,
        server_settings=_SETTINGS,
        statement_cache_size=256,
    )
    return connection


class Connections:
    """A pool that remembers whether the database can be reached."""

    def __init__(self, dsn: str, size: int) -> None:
        self._dsn = dsn
        self._idle: list[Connection] = []
        self._open_connections: dict[Connection, str] = {}
        self._closed = False
        self._free = asyncio.Semaphore(size)
        self.lost: StorageUnavailable | None = None
        """Why no connection can be opened now, or None."""

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """Lend a connection. One that is left inside a transaction, or in the middle of a statement, is not used
        again."""
        async with self._free:
            connection = await self._open()
            try:
                yield connection
            except _INTERRUPTED:  # perhaps asyncpg still waits for the result of a statement
                connection.terminate()
                raise
            except BaseException:
                if connection.is_closed() or connection.is_in_transaction():
                    connection.terminate()
                raise
            finally:
                if not connection.is_closed():
                    self._idle.append(connection)

    async def _open(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        try:
            connection, incarnation = await self._connect()
        except LOST as error:
            self.lost = unavailable(error)
            raise
        self.lost = None
        self._open_connections[connection] = incarnation
        connection.add_termination_listener(self._forget)
        if self._closed:
            connection.terminate()
        return connection

    async def _connect(self) -> tuple[Connection, str]:
        connection = await connect(self._dsn, command_timeout=COMMAND_TIMEOUT)
        try:
            return connection, await connection.fetchval(_INCARNATION)
        except BaseException:
            connection.terminate()
            raise

    def incarnation_of(self, connection: Connection) -> str:
        """The incarnation of the server that the connection is open to. A server that was restarted, or that recovered
        from a crash, has a new one."""
        return self._open_connections.get(connection, "")

    def _forget(self, connection: Connection) -> None:
        self._open_connections.pop(connection, None)

    def forget_idle(self) -> None:
        """Close the idle connections, after one of them was found to be lost."""
        for connection in self._idle:
            connection.terminate()
        self._idle.clear()

    async def close(self) -> None:
        """Close the idle connections. Those that are still lent are terminated: their results are not needed."""
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            try:
                await connection.close(timeout=2)
            except LOST:
                connection.terminate()
        for connection in [*self._open_connections]:
            connection.terminate()
