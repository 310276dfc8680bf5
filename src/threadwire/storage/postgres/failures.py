"""What an error of the database means: try again, the connection is lost, or the statement failed."""

import asyncpg

from threadwire.errors import StorageError, StorageFull, StorageUnavailable


class Contended(Exception):
    """A competitor has changed what this transaction is based on. It is executed again."""


LOST: tuple[type[BaseException], ...] = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # asyncpg lost track of what it sent, because a statement was interrupted
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # the server was demoted; the next connection finds the new one
)
"""The connection cannot be used, or none can be opened. Nothing was changed, unless it was lost during a commit."""

CONTENDED: tuple[type[BaseException], ...] = (
    Contended,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.UniqueViolationError,  # a competitor inserted the row first; the next attempt finds it
)
"""A transaction conflicted with another one. It succeeds when it is executed again."""


def unavailable(error: BaseException) -> StorageUnavailable:
    return StorageUnavailable(f"The database is not available: {_described(error)}")


def translated(error: Exception) -> StorageError:
    """Return the error to raise for a statement that failed."""
    match error:
        case asyncpg.DiskFullError() | asyncpg.OutOfMemoryError():
            return StorageFull(f"The database has no room: {_described(error)}")
        case asyncpg.QueryCanceledError() | asyncpg.LockNotAvailableError():
            return StorageUnavailable(f"The database did not respond in time: {_described(error)}")
        case _:
            return StorageError(f"A database operation failed: {_described(error)}")


def _described(error: BaseException) -> str:
    """One line. The details of an error may contain stored values, so they are left out."""
    text = str(error).strip().splitlines()
    if not text and isinstance(error, TimeoutError):
        return "it did not respond in time."
    return (text[0] if text else type(error).__name__).rstrip(".") + "."
