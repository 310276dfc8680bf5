"""Opens the storage that the settings name. The only module that names a driver."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

import anyio

from threadwire.engine.clock import Clock, system_clock
from threadwire.errors import ConfigError
from threadwire.graphs.serializer import Serializer
from threadwire.ipc.channel import Channel
from threadwire.server.worker_processes import Service
from threadwire.settings import Settings
from threadwire.storage.abc import Keys, Storage, WorkerStorage


@asynccontextmanager
async def open_storage_and_clock(settings: Settings, serializer: Serializer) -> AsyncIterator[tuple[Storage, Clock]]:
    """Open the storage, and the clock that all processes on this storage share."""
    if settings.is_on_postgres:
        async with _open_postgres(settings, serializer) as opened:
            yield opened
    else:
        async with open_storage(settings, serializer) as storage:
            yield storage, system_clock


def open_storage(settings: Settings, serializer: Serializer) -> AbstractAsyncContextManager[Storage]:
    """Open a storage for one process."""
    _require_one_process(settings)
    match settings.storage:
        case "sqlite":
            from threadwire.storage.sqlite import open_sqlite_storage

            return open_sqlite_storage(settings.data, serializer=serializer)
        case "memory":
            from threadwire.storage.memory import open_memory_storage

            return open_memory_storage(serializer=serializer)
        case other:
            # It may be an address with a password, so it is not shown.
            unknown = f": {other.partition('://')[0]}://… is not supported" if "://" in other else ""
            raise ConfigError(f"Invalid value for storage{unknown}. Use sqlite, memory or postgresql://….")


def _require_one_process(settings: Settings) -> None:
    for name, value in (("redis", settings.redis), ("role", settings.role)):
        if value not in (None, "all"):
            raise ConfigError(f"The setting {name} requires PostgreSQL: set storage to postgresql://….")


@asynccontextmanager
async def _open_postgres(settings: Settings, serializer: Serializer) -> AsyncIterator[tuple[Storage, Clock]]:
    with _requiring_asyncpg():
        from threadwire.storage.postgres import open_postgres_storage
        from threadwire.storage.postgres.database_clock import DatabaseClock
    dsn, clock = settings.storage, DatabaseClock()
    async with (
        open_postgres_storage(dsn, clock=clock, serializer=serializer, redis=settings.redis) as storage,
        clock.following(dsn),
    ):
        yield storage, clock


def open_keys(settings: Settings) -> AbstractAsyncContextManager[Keys]:
    """Open only the API keys, which commands change while a server runs."""
    if settings.is_on_postgres:
        with _requiring_asyncpg():
            from threadwire.storage.postgres import open_postgres_keys
        return open_postgres_keys(settings.storage)
    if settings.storage == "sqlite":
        from threadwire.storage.sqlite import open_sqlite_keys

        return open_sqlite_keys(settings.data)
    raise ConfigError("API keys cannot be stored with this storage. Use sqlite or postgresql://….")


@contextmanager
def _requiring_asyncpg() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"PostgreSQL needs {error.name}: pip install 'threadwire[postgres]'.") from None


# Worker processes


def serve_storage(storage: Storage, channel: Channel) -> Service:
    """Serve the storage to a worker process while the returned function is executed. Workers open PostgreSQL
    themselves."""
    from threadwire.storage.sqlite.driver import SqliteStorage
    from threadwire.storage.sqlite.remote.service import StorageService

    if not isinstance(storage, SqliteStorage):
        return anyio.sleep_forever
    return StorageService(storage, channel).forward_hints


@asynccontextmanager
async def open_worker_storage(
    settings: Settings, serializer: Serializer, channel: Channel
) -> AsyncIterator[tuple[WorkerStorage, Clock]]:
    """Open the storage in a worker process."""
    if settings.is_on_postgres:
        async with _open_postgres(settings, serializer) as opened:
            yield opened
    else:
        from threadwire.storage.sqlite.remote.client import RemoteStorage

        yield RemoteStorage(channel, serializer, system_clock), system_clock
