import datetime as dt

import pytest

from services.fixtures import empty_database, postgres_server
from threadwire.core.ids import ThreadId
from threadwire.storage.postgres.connections import Connection, connect
from threadwire.storage.postgres.id_keys import key_of
from threadwire.storage.postgres.partitions import drop_expired_partitions, ensure_partitions
from threadwire.storage.postgres.schema import migrate

__all__ = ["empty_database", "postgres_server"]

pytestmark = pytest.mark.anyio

PAST = dt.date(2020, 1, 1)  # a Wednesday
THREAD = key_of(ThreadId("6ba7b821-0000-4000-8000-000000000001"))


async def partition_of_day(db: Connection, day: dt.date) -> str:
    sql = """INSERT INTO segments (thread, first_seq, n, attempt, at, packed, data, day)
             VALUES ($1, 1, 1, 0, 0, 0, '', $2) RETURNING tableoid::regclass::text"""
    name: str = await db.fetchval(sql, THREAD, day)
    return name


async def test_a_row_goes_to_the_partition_of_its_week(empty_database: str) -> None:
    await migrate(empty_database)
    db = await connect(empty_database)
    today: dt.date = await db.fetchval("SELECT CURRENT_DATE")
    await ensure_partitions(db, [PAST])
    assert await partition_of_day(db, PAST) == "segments_2019_12_30"
    assert (await partition_of_day(db, today)).startswith(f"segments_{today:%Y}")
    assert await partition_of_day(db, PAST + dt.timedelta(weeks=1)) == "segments_default"
    await db.close()


async def test_a_past_partition_is_dropped_once_it_is_empty(empty_database: str) -> None:
    await migrate(empty_database)
    db = await connect(empty_database)
    today: dt.date = await db.fetchval("SELECT CURRENT_DATE")
    await ensure_partitions(db, [PAST])
    await partition_of_day(db, PAST)
    assert await drop_expired_partitions(db, today) == []
    await db.execute("DELETE FROM segments WHERE thread = $1", THREAD)
    assert await drop_expired_partitions(db, today) == ["segments_2019_12_30"]
    assert await partition_of_day(db, PAST) == "segments_default"
    await db.close()


async def test_a_week_whose_rows_are_in_the_default_partition_stays_there(empty_database: str) -> None:
    await migrate(empty_database)
    db = await connect(empty_database)
    await partition_of_day(db, PAST)
    await ensure_partitions(db, [PAST])
    assert await partition_of_day(db, PAST + dt.timedelta(days=1)) == "segments_default"
    await db.close()
