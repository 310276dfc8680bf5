import asyncio
import os

import pytest

from services.fixtures import pgvector_server, postgres_server, redis_server
from services.postgres_server import PostgresServer, delete_all_rows
from services.redis_server import RedisServer
from threadwire.storage.postgres.schema import migrate

__all__ = ["pgvector_server", "postgres_server", "redis_server"]

_KEPT = ("schema_version", "deployment")


@pytest.fixture(scope="session")
def migrated_database(postgres_server: PostgresServer) -> str:
    """The address of a database with the tables, which the tests of this process share."""
    return asyncio.run(_create_migrated(postgres_server))


@pytest.fixture
def database(migrated_database: str) -> str:
    """The same database without rows."""
    asyncio.run(delete_all_rows(migrated_database, except_of=_KEPT))
    return migrated_database


@pytest.fixture(scope="session")
def migrated_pgvector_database(pgvector_server: PostgresServer) -> str:
    return asyncio.run(_create_migrated(pgvector_server))


@pytest.fixture
def pgvector_database(migrated_pgvector_database: str) -> str:
    """A database without rows on a server with pgvector."""
    asyncio.run(delete_all_rows(migrated_pgvector_database, except_of=_KEPT))
    return migrated_pgvector_database


@pytest.fixture
def redis(request: pytest.FixtureRequest) -> str | None:
    """The address of a Redis if the suites are to use one."""
    if not os.environ.get("CONFORMANCE_REDIS"):
        return None
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url


async def _create_migrated(server: PostgresServer) -> str:
    dsn = await server.create_database()
    await migrate(dsn)
    return dsn
