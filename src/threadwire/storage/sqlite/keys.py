"""API keys, in a file of their own."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import apsw

from threadwire.core.api_keys import ApiKey
from threadwire.errors import Conflict, NotFound
from threadwire.storage.sqlite.keys_file import synced, translate_key_errors
from threadwire.storage.sqlite.rows import fetch, from_text, to_text

_COLUMNS = "key, digest, user, name, permissions, created_at, expires_at, revoked_at"


class SqliteKeys:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    async def create(self, key: ApiKey) -> None:
        sql = f"INSERT INTO keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        times = (key.created_at, key.expires_at, key.revoked_at)
        try:
            with translate_key_errors(), synced(self._db):
                self._db.execute(sql, (key.key_id, key.digest, key.user, key.name, to_text(key.permissions), *times))
        except apsw.ConstraintError:
            raise Conflict(f"Key {key.key_id} already exists") from None

    async def find(self, key_ids: Collection[str]) -> Mapping[str, ApiKey]:
        sql = f"SELECT {_COLUMNS} FROM keys WHERE key = ?"
        with translate_key_errors():
            return {key_id: _key(row) for key_id in key_ids for row in fetch(self._db, sql, (key_id,))}

    async def list(self) -> Sequence[ApiKey]:
        with translate_key_errors():
            return [_key(row) for row in fetch(self._db, f"SELECT {_COLUMNS} FROM keys ORDER BY created_at, key", ())]

    async def revoke(self, key_id: str, now: int) -> ApiKey:
        sql = f"UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE key = ? RETURNING {_COLUMNS}"
        with translate_key_errors(), synced(self._db):
            for row in fetch(self._db, sql, (now, key_id)):
                return _key(row)
        raise NotFound(f"Key {key_id} not found")


def _key(row: tuple[Any, ...]) -> ApiKey:
    key_id, digest, user, name, permissions, created_at, expires_at, revoked_at = row
    return ApiKey(key_id, digest, user, created_at, name, tuple(from_text(permissions)), expires_at, revoked_at)
