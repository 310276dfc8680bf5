"""The schema of the database, and the migration of older ones."""

from importlib.resources import files
from typing import NamedTuple

import asyncpg

from threadwire.errors import StorageError
from threadwire.storage.postgres.connections import Connection, connect
from threadwire.storage.postgres.database_checks import check_rights, check_server
from threadwire.storage.postgres.failures import LOST, translated, unavailable
from threadwire.storage.postgres.partitions import create_upcoming

_MIGRATION_LOCK = 0x7468726561647769


class MigrationReport(NamedTuple):
    before: int
    after: int


def migrations() -> list[str]:
    """The migration scripts in order. The n-th one migrates to schema version n."""
    folder = files("threadwire.storage.postgres") / "migrations"
    found = sorted((path for path in folder.iterdir() if path.name.endswith(".sql")), key=lambda path: path.name)
    return [path.read_text(encoding="utf-8") for path in found]


async def migrate(dsn: str) -> MigrationReport:
    """Migrate a database to the newest schema. Several processes may do this at the same time."""
    connection = await _connected(dsn)
    try:
        return await _migrate(connection, migrations())
    except asyncpg.InsufficientPrivilegeError as error:
        raise StorageError(f"The database role may not create or change tables: {error}.") from error
    except asyncpg.PostgresError as error:
        raise translated(error) from error
    finally:
        await connection.close()


async def prepare(dsn: str) -> None:
    """Check that a server can use the database. An empty database gets the schema; an older one must be migrated
    first, so that its operator decides when."""
    connection = await _connected(dsn)
    try:
        await check_server(connection)
        version = await _version(connection)
        wanted = len(migrations())
        if version == wanted:
            await check_rights(connection)
    except asyncpg.InsufficientPrivilegeError as error:
        raise StorageError(f"The database role may not read the tables: {error}.") from error
    except asyncpg.PostgresError as error:
        raise translated(error) from error
    finally:
        await connection.close()
    if version == 0:
        await migrate(dsn)
    elif version < wanted:
        raise StorageError(
            f"The database has schema version {version}, but this Threadwire needs {wanted}."
            " Run `threadwire migrate` first."
        )
    else:
        _check_not_newer(version, wanted)


async def _connected(dsn: str) -> Connection:
    try:
        return await connect(dsn)
    except ValueError as error:  # also asyncpg's own error for an invalid option
        raise StorageError(f"The address of the database is not valid: {error}.") from error
    except LOST as error:
        raise unavailable(error) from error
    except asyncpg.PostgresError as error:  # a wrong password, an unknown database
        raise StorageError(f"The database cannot be opened: {error}.") from error


def _check_not_newer(version: int, wanted: int) -> None:
    if version > wanted:
        raise StorageError(
            f"The database was written by a newer Threadwire (schema version {version}; this one supports up to"
            f" {wanted}). Upgrade Threadwire, or use another database."
        )


async def _version(connection: Connection) -> int:
    if await connection.fetchval("SELECT to_regclass('schema_version') IS NULL"):
        return 0
    version: int = await connection.fetchval("SELECT coalesce(max(version), 0) FROM schema_version")
    return version


async def _migrate(connection: Connection, scripts: list[str]) -> MigrationReport:
    await check_server(connection)
    await connection.execute("SET lock_timeout = '5min'; SET statement_timeout = 0")
    async with connection.transaction():  # completely or not at all
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
        before = await _version(connection)
        _check_not_newer(before, len(scripts))
        if before == 0:
            await connection.execute(
                """CREATE TABLE IF NOT EXISTS schema_version (
                     version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"""
            )
        for number, script in enumerate(scripts[before:], before + 1):
            await connection.execute(script)
            await connection.execute("INSERT INTO schema_version (version) VALUES ($1)", number)
        await create_upcoming(connection)
    return MigrationReport(before, len(scripts))
