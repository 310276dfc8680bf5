"""The time of the database, for everything that several processes compare: when runs and crons are due, and when
threads expire. The clocks of their machines may differ."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import structlog

from threadwire.storage.postgres.connections import connect
from threadwire.storage.postgres.failures import LOST

logger = structlog.get_logger("threadwire.clock")

MEASURE_INTERVAL = 60.0
"""Seconds between two measurements. In between, the clock of the machine only measures the elapsed time."""
NOTABLE_DIFFERENCE = 5.0
"""Seconds by which the clocks may differ before that is logged."""

_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


class DatabaseClock:
    """Returns milliseconds since the epoch. Until it has been measured, it is the clock of the machine."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        return (time.monotonic_ns() + self._offset) // 1_000_000

    @asynccontextmanager
    async def following(self, dsn: str) -> AsyncIterator[None]:
        """Follow the clock of a database while the block is executed."""
        await self._measure(dsn)
        following = asyncio.create_task(self._follow(dsn))
        try:
            yield
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def _follow(self, dsn: str) -> None:
        while True:
            await asyncio.sleep(MEASURE_INTERVAL)
            await self._measure(dsn)

    async def _measure(self, dsn: str) -> None:
        """Measure the difference. If the database cannot be reached, the last measurement stays valid."""
        try:
            connection = await connect(dsn)
        except (*LOST, asyncpg.PostgresError):
            return
        try:
            before = time.monotonic_ns()
            now = round(await connection.fetchval(_NOW) * 1e9)
            self._offset = now - (before + time.monotonic_ns()) // 2
        except (*LOST, asyncpg.PostgresError):
            return
        finally:
            connection.terminate()
        self._report((now - time.time_ns()) / 1e9)

    def _report(self, ahead: float) -> None:
        if abs(ahead) > NOTABLE_DIFFERENCE:
            logger.warning(
                "clock_difference_found",
                seconds=round(ahead),
                hint="The server uses the clock of the database. Correct the clock of this machine.",
            )
