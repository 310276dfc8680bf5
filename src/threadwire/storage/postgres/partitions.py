"""The partitions of the segments: one for each week, created ahead, and dropped once everything in it has expired.

A row whose week has no partition goes to the default partition. That works too, but is never dropped.
"""

import asyncio
import datetime as dt
from collections.abc import Iterable

import asyncpg
import structlog

from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.failures import LOST

WEEKS_AHEAD = 4
UPKEEP_INTERVAL = 3600.0

_PARTITIONS = """
SELECT child.relname FROM pg_inherits AS i JOIN pg_class AS child ON child.oid = i.inhrelid
 WHERE i.inhparent = 'segments'::regclass AND child.relname <> 'segments_default'
"""

_log = structlog.get_logger(__name__)


async def ensure_partitions(db: Connection, days: Iterable[dt.date]) -> None:
    """Create the partitions for the weeks of these days. Weeks with rows in the default partition are skipped."""
    existing = {name for (name,) in await db.fetch(_PARTITIONS)}
    for monday in sorted({day - dt.timedelta(days=day.weekday()) for day in days}):
        if _name(monday) not in existing:
            await _create(db, monday)


async def _create(db: Connection, monday: dt.date) -> None:
    # A date cannot be a parameter here; it is formatted by us, never given by a client.
    end = monday + dt.timedelta(days=7)
    sql = f"CREATE TABLE IF NOT EXISTS {_name(monday)} PARTITION OF segments FOR VALUES FROM ('{monday}') TO ('{end}')"
    try:
        await db.execute(sql)
    except (asyncpg.CheckViolationError, asyncpg.InvalidObjectDefinitionError) as error:
        _log.warning("partition_skipped", week=str(monday), error=str(error))


def _name(monday: dt.date) -> str:
    return f"segments_{monday:%Y_%m_%d}"


async def drop_expired_partitions(db: Connection, today: dt.date) -> list[str]:
    """Drop the partitions of past weeks that have no rows left. Returns their names."""
    past = [name for (name,) in await db.fetch(_PARTITIONS) if name < _name(today - dt.timedelta(days=7))]
    dropped: list[str] = []
    for name in past:
        async with db.transaction():
            # The lock comes first, so that no row can arrive between the check and the drop.
            await db.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
            if not await db.fetchval(f"SELECT EXISTS (SELECT 1 FROM {name})"):
                await db.execute(f"DROP TABLE {name}")
                dropped.append(name)
    return dropped


async def upkeep(database: Database) -> None:
    """Create and drop partitions from time to time. A role that may not do this leaves it to `threadwire migrate`."""
    while True:
        try:
            async with database.connection() as db:
                today: dt.date = await db.fetchval("SELECT CURRENT_DATE")
                await ensure_partitions(db, _upcoming(today))
                await drop_expired_partitions(db, today)
        except (*LOST, asyncpg.PostgresError) as error:  # the next attempt may succeed
            _log.warning("partition_upkeep_failed", error=str(error))
        await asyncio.sleep(UPKEEP_INTERVAL)


def _upcoming(today: dt.date) -> list[dt.date]:
    return [today + dt.timedelta(weeks=week) for week in range(WEEKS_AHEAD + 1)]


async def create_upcoming(db: Connection) -> None:
    """Create the partitions of this week and the next ones."""
    await ensure_partitions(db, _upcoming(await db.fetchval("SELECT CURRENT_DATE")))
