"""Connections that were interrupted in the middle of a statement are not used again."""

import asyncio

import pytest

from services.fault_proxy import fault_proxy
from services.fixtures import postgres_server as postgres_server
from services.postgres_server import PostgresServer
from threadwire.storage.postgres.connections import Connections

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("interruption", ["cancelled", "timed out"])
async def test_an_interrupted_connection_is_replaced(postgres_server: PostgresServer, interruption: str) -> None:
    with fault_proxy(postgres_server.port) as proxy:
        connections = Connections(postgres_server.dsn(port=proxy.port), size=1)
        async with connections.lend() as connection:
            first = await connection.fetchval("SELECT pg_backend_pid()")
        proxy.stall()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2 if interruption == "cancelled" else None), connections.lend() as connection:
                await connection.fetchval("SELECT 1", timeout=0.2 if interruption == "timed out" else None)
        proxy.mend()
        for _ in range(3):
            async with connections.lend() as connection:
                assert await connection.fetchval("SELECT pg_backend_pid()") != first
        await connections.close()
