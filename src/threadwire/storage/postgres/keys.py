"""API keys and tickets."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from asyncpg import Record

from threadwire.core.api_keys import ApiKey
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import Keys
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.json_columns import from_text, to_text
from threadwire.storage.postgres.schema import prepare
from threadwire.storage.postgres.text_columns import escaped, unescaped
from threadwire.storage.postgres.transaction import Transaction

_COLUMNS = "key, digest, owner, name, permissions, created_at, expires_at, revoked_at"
_INSERT = f"""INSERT INTO keys ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING RETURNING true"""
_REVOKE = f"UPDATE keys SET revoked_at = coalesce(revoked_at, $2) WHERE key = $1 RETURNING {_COLUMNS}"


class PostgresKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, key: ApiKey) -> None:
        await self._database.write(lambda transaction: insert_key(transaction.db, key))

    async def find(self, key_ids: Collection[str]) -> Mapping[str, ApiKey]:
        sql, wanted = f"SELECT {_COLUMNS} FROM keys WHERE key = ANY($1)", [escaped(key_id) for key_id in key_ids]
        rows = await self._database.read(lambda db: db.fetch(sql, wanted))
        return {key.key_id: key for key in map(_key, rows)}

    async def list(self) -> Sequence[ApiKey]:
        sql = f"SELECT {_COLUMNS} FROM keys ORDER BY created_at, key"
        return [_key(row) for row in await self._database.read(lambda db: db.fetch(sql))]

    async def revoke(self, key_id: str, now: int) -> ApiKey:
        async def revoke(transaction: Transaction) -> ApiKey:
            row = await transaction.db.fetchrow(_REVOKE, escaped(key_id), now)
            if row is None:
                raise NotFound(f"Key {key_id} not found")
            return _key(row)

        return await self._database.write(revoke)


class PostgresTickets:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def issue(self, digest: bytes, grant: dict[str, Any], expires_at: int, now: int) -> None:
        async def issue(transaction: Transaction) -> None:
            await transaction.db.execute("DELETE FROM tickets WHERE expires_at <= $1", now)
            sql = "INSERT INTO tickets (digest, access, expires_at) VALUES ($1, $2, $3)"
            await transaction.db.execute(sql, digest, to_text(grant), expires_at)

        await self._database.write(issue)

    async def redeem(self, digest: bytes, now: int) -> dict[str, Any] | None:
        async def redeem(transaction: Transaction) -> dict[str, Any] | None:
            sql = "DELETE FROM tickets WHERE digest = $1 RETURNING access, expires_at"
            row = await transaction.db.fetchrow(sql, digest)
            granted: dict[str, Any] | None = None if row is None or row[1] <= now else from_text(row[0])
            return granted

        return await self._database.write(redeem)


async def insert_key(db: Connection, key: ApiKey) -> None:
    row = (
        escaped(key.key_id),
        key.digest,
        escaped(key.user),
        escaped(key.name),
        to_text(key.permissions),
        key.created_at,
        key.expires_at,
        key.revoked_at,
    )
    if not await db.fetchval(_INSERT, *row):
        raise Conflict(f"Key {key.key_id} already exists")


@asynccontextmanager
async def open_postgres_keys(dsn: str) -> AsyncIterator[Keys]:
    """Open only the API keys of a database, which servers may be using."""
    await prepare(dsn)
    database = Database(dsn)
    try:
        yield PostgresKeys(database)
    finally:
        database.close()


def _key(row: Record) -> ApiKey:
    key_id, digest, user, name, permissions, created_at, expires_at, revoked_at = row
    return ApiKey(
        unescaped(key_id),
        digest,
        unescaped(user),
        created_at,
        unescaped(name),
        tuple(from_text(permissions)),
        expires_at,
        revoked_at,
    )
