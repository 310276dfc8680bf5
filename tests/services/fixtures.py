"""The servers as pytest fixtures: one of each per test process, started by the first test that asks for it.

A `conftest.py` imports the fixtures that its tests use.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from services.postgres_server import PostgresServer, programs_with_pgvector, running_postgres
from services.redis_server import RedisServer, running_redis


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server that does not sync to disk. A test that kills it starts its own: `running_postgres(durable=True)`."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def pgvector_server() -> Iterator[PostgresServer]:
    """A server with the extension `vector`."""
    with running_postgres(programs=programs_with_pgvector()) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A server that several tests share. A test that kills it starts its own: `running_redis()`."""
    with running_redis() as server:
        yield server


@pytest.fixture
async def empty_database(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """The address of a database without tables."""
    dsn = await postgres_server.create_database()
    yield dsn
    await postgres_server.drop_database(dsn)
