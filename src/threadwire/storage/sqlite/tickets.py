"""Tickets, in the file of the API keys. They live for seconds, so their writes are not synced."""

from typing import Any

import apsw

from threadwire.storage.sqlite.keys_file import translate_key_errors
from threadwire.storage.sqlite.rows import fetch, from_text, to_text


class SqliteTickets:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    async def issue(self, digest: bytes, grant: dict[str, Any], expires_at: int, now: int) -> None:
        with translate_key_errors(), self._db:
            self._db.execute("DELETE FROM tickets WHERE expires_at <= ?", (now,))
            self._db.execute("INSERT INTO tickets VALUES (?, ?, ?)", (digest, to_text(grant), expires_at))

    async def redeem(self, digest: bytes, now: int) -> dict[str, Any] | None:
        with translate_key_errors():
            rows = fetch(self._db, "DELETE FROM tickets WHERE digest = ? RETURNING access, expires_at", (digest,))
        for grant, expires_at in rows:
            granted: dict[str, Any] = from_text(grant)
            return granted if expires_at > now else None
        return None
