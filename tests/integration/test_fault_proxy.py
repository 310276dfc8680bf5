"""The proxy breaks what it should: otherwise the tests that use it prove nothing."""

import asyncio

import asyncpg
import pytest

from services.fault_proxy import CommitFault, FaultProxy, fault_proxy
from services.fixtures import postgres_server as postgres_server
from services.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio

LOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> "FaultProxy":
    with fault_proxy(postgres_server.port) as running:
        yield running


async def connect(postgres_server: PostgresServer, proxy: FaultProxy) -> asyncpg.Connection:
    return await asyncpg.connect(postgres_server.dsn(port=proxy.port), timeout=10)


async def test_a_cut_breaks_connections_and_refuses_new_ones(
    postgres_server: PostgresServer, proxy: FaultProxy
) -> None:
    connection = await connect(postgres_server, proxy)
    assert await connection.fetchval("SELECT 1") == 1
    proxy.cut()
    with pytest.raises(LOST):
        await connection.fetchval("SELECT 1")
    with pytest.raises(LOST):
        await connect(postgres_server, proxy)
    proxy.mend()
    again = await connect(postgres_server, proxy)
    assert await again.fetchval("SELECT 1") == 1
    await again.close()


async def test_a_stall_holds_everything_up_and_breaks_nothing(
    postgres_server: PostgresServer, proxy: FaultProxy
) -> None:
    connection = await connect(postgres_server, proxy)
    proxy.stall()
    query = asyncio.create_task(connection.fetchval("SELECT 1"))
    done, _ = await asyncio.wait([query], timeout=0.2)
    assert not done
    proxy.mend()
    assert await query == 1
    await connection.close()


@pytest.mark.parametrize(("fault", "stored"), [("before", 0), ("after", 1)])
async def test_a_commit_is_cut_before_or_after_it_is_executed(
    postgres_server: PostgresServer, proxy: FaultProxy, fault: CommitFault, stored: int
) -> None:
    table = f"commits_{fault}"
    direct = await asyncpg.connect(postgres_server.dsn())
    await direct.execute(f"CREATE TABLE {table} (n int)")
    connection = await connect(postgres_server, proxy)
    proxy.cut_at_commit(fault)
    with pytest.raises(LOST):
        async with connection.transaction():
            await connection.execute(f"INSERT INTO {table} VALUES (1)")
    assert proxy.commits_cut == 1
    assert await direct.fetchval(f"SELECT count(*) FROM {table}") == stored
    await direct.close()
