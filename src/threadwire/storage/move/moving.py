"""Copies every row in one transaction, reads every row back before the commit, and compares the logs after it."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from hashlib import blake2b
from pathlib import Path

import apsw
import asyncpg

from threadwire.core.api_keys import ApiKey
from threadwire.core.entries import START
from threadwire.core.ids import ThreadId
from threadwire.errors import Conflict, StorageError
from threadwire.storage.abc import Storage
from threadwire.storage.move.tables import TABLES, Row, Table
from threadwire.storage.postgres import open_postgres_storage
from threadwire.storage.postgres.connections import Connection, connect
from threadwire.storage.postgres.failures import LOST, translated, unavailable
from threadwire.storage.postgres.id_keys import key_of
from threadwire.storage.postgres.keys import insert_key
from threadwire.storage.postgres.partitions import ensure_partitions
from threadwire.storage.postgres.schema import prepare
from threadwire.storage.sqlite import open_sqlite_storage
from threadwire.storage.sqlite.id_keys import name_of
from threadwire.storage.sqlite.schema import open_reader

Report = Callable[[str, int], None]
"""Called with the name of a table and how many of its rows were moved."""

_PAGE = 5000
_DAYS = "SELECT DISTINCT at / 86400000 * 86400000 FROM segments"
_HEADS = """
SELECT name, max(last), max(live), min(first_at), max(last_at) FROM (
  SELECT thread AS name, max(first_seq + n - 1) AS last, 0 AS live, min(at) AS first_at, max(at) AS last_at
    FROM segments GROUP BY thread
  UNION ALL SELECT thread, 0, 1, created_at, created_at FROM threads)
GROUP BY name
"""


async def move(data: Path, dsn: str, report: Report) -> int:
    """Move everything, and return the number of log entries that were compared. The directory is left as it is.

    Raises `Conflict` if the database already has data, and `StorageError` if anything that was read back differs from
    the original. Until the transaction commits, the database stays empty.
    """
    async with open_sqlite_storage(data) as source:  # holds the lock, so that no server can use the directory
        db = open_reader(data / "threadwire.db")
        try:
            await prepare(dsn)
            await _copy(db, await source.keys.list(), dsn, report)
            threads = [ThreadId(name_of(key)) for key, *_ in db.execute(_HEADS)]
        finally:
            db.close()
        async with open_postgres_storage(dsn) as target:
            if await target.keys.list() != await source.keys.list():
                raise StorageError(
                    "The API keys that were read back differ from the originals. Do not use the database."
                )
            return sum([await _compare(source, target, thread_id) for thread_id in threads])


async def _copy(db: apsw.Connection, keys: Sequence[ApiKey], dsn: str, report: Report) -> None:
    async with _transaction(dsn) as connection:
        await _require_empty(connection)
        await ensure_partitions(connection, [_day(at) for (at,) in db.execute(_DAYS)])
        for table in TABLES:
            count = await _copy_table(db, connection, table)
            report(table.name, count)
        for key in keys:  # without its keys, the server would admit everyone
            await insert_key(connection, key)
        report("keys", len(keys))
        await _write_heads(db, connection)
        await connection.execute("UPDATE runs SET worker = 'moved', leased_until = 'epoch' WHERE status = 'running'")


@asynccontextmanager
async def _transaction(dsn: str) -> AsyncIterator[Connection]:
    try:
        connection = await connect(dsn)
    except LOST as error:
        raise unavailable(error) from error
    try:
        await connection.execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
        async with connection.transaction():
            yield connection
    except asyncpg.PostgresError as error:
        raise translated(error) from error
    finally:
        await connection.close()


async def _require_empty(connection: Connection) -> None:
    for name in (*(table.name for table in TABLES), "keys"):
        await connection.execute(f"LOCK TABLE {name} IN EXCLUSIVE MODE")
        if await connection.fetchval(f"SELECT EXISTS (SELECT FROM {name})"):
            raise Conflict(f"The database is not empty: it has rows in {name}. Move into an empty database.")


async def _copy_table(db: apsw.Connection, connection: Connection, table: Table) -> int:
    """Copy the rows, and check that the same rows are read back."""
    sent = _Digest(len(table.columns))
    columns = [*table.columns, *table.computed]
    rows = (sent.add(_with_day(table, row)) for row in table.rows(db))
    await connection.copy_records_to_table(table.name, records=rows, columns=[*columns, *_day_column(table)])
    stored = _Digest(len(table.columns))
    async for record in connection.cursor(f"SELECT {', '.join(columns)} FROM {table.name}", prefetch=1000):
        stored.add(tuple(record))
    if stored != sent:
        raise StorageError(
            f"The rows of {table.name} that were read back differ from the originals. Nothing was moved."
        )
    if table.counted_by is not None:
        await connection.execute(
            f"SELECT setval(pg_get_serial_sequence('{table.name}', '{table.counted_by}'),"
            f" (SELECT coalesce(max({table.counted_by}), 0) + 1 FROM {table.name}), false)"
        )
    return sent.count


class _Digest:
    """How many rows there are, and a digest of them that does not depend on their order."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._sum = 0
        self.count = 0

    def add(self, row: Row) -> Row:
        compared = repr(row[: self._width]).encode(errors="surrogatepass")
        self._sum = (self._sum + int.from_bytes(blake2b(compared, digest_size=16).digest())) % 2**128
        self.count += 1
        return row

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Digest) and (self.count, self._sum) == (other.count, other._sum)

    __hash__ = None  # type: ignore[assignment]


def _day_column(table: Table) -> Iterable[str]:
    return ("day",) if table.name == "segments" else ()


def _with_day(table: Table, row: Row) -> Row:
    """A segment also has the day on which it was written, which determines its partition."""
    return row if table.name != "segments" else (*row, _day(row[list(table.columns).index("at")]))


def _day(at: int) -> date:
    return datetime.fromtimestamp(at / 1000, UTC).date()


async def _write_heads(db: apsw.Connection, connection: Connection) -> None:
    holders = {
        thread: (run, attempt)
        for thread, run, attempt in db.execute("SELECT thread, run, attempt FROM runs WHERE status = 'running'")
    }
    rows = []
    for thread, last, live, first_at, last_at in db.execute(_HEADS):
        run, attempt = holders.get(thread, (None, None))
        holder = None if run is None else key_of(name_of(run))
        rows.append((key_of(name_of(thread)), last, bool(live), holder, attempt, _day(first_at), _day(last_at)))
    columns = ["thread", "last_seq", "live", "run", "attempt", "since", "until"]
    await connection.copy_records_to_table("thread_heads", records=rows, columns=columns)


async def _compare(source: Storage, target: Storage, thread_id: ThreadId) -> int:
    """Read a thread with its log and its runs from both storages. Returns how many entries it has."""
    if await source.threads.get(thread_id) != await target.threads.get(thread_id):
        raise _differs(thread_id, "its row")
    await _compare_runs(source, target, thread_id)
    cursor, count = START, 0
    while page := await source.log.read(thread_id, cursor, limit=_PAGE):
        if page != await target.log.read(thread_id, cursor, limit=_PAGE):
            raise _differs(thread_id, f"its log after entry {cursor}")
        cursor, count = page[-1].seq, count + len(page)
    if await target.log.last(thread_id) != cursor:
        raise _differs(thread_id, "the end of its log")
    return count


async def _compare_runs(source: Storage, target: Storage, thread_id: ThreadId) -> None:
    offset = 0
    while True:
        page = await source.runs.list(thread_id, limit=_PAGE, offset=offset)
        if page != await target.runs.list(thread_id, limit=_PAGE, offset=offset):
            raise _differs(thread_id, "the list of its runs")
        if not page:
            return
        offset += len(page)


def _differs(thread_id: ThreadId, what: str) -> StorageError:
    return StorageError(f"Thread {thread_id} was not moved correctly: {what} differs. Do not use the database.")
