"""Clients of a server with auth, and API keys as the command stores them."""

import time
from pathlib import Path

import anyio
import httpx

from threadwire.core.api_keys import ApiKey, digest_of, key_text
from threadwire.storage.sqlite import open_sqlite_keys
from threadwire.testing.server import RunningServer

PROJECT = Path(__file__).parent / "project" / "langgraph.json"


def client_of(server: RunningServer, headers: dict[str, str]) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers=headers, timeout=30)


def store_key(
    data: Path, number: int, *, user: str = "ada", expires_at: int | None = None, revoked: bool = False
) -> str:
    """Store an API key as the command would, and return it."""
    key_id, secret = f"{number:012x}", f"{number:064x}"

    async def store() -> None:
        async with open_sqlite_keys(data) as keys:
            await keys.create(ApiKey(key_id, digest_of(secret), user, 1, expires_at=expires_at))
            if revoked:
                await keys.revoke(key_id, 2)

    anyio.run(store)
    return key_text(key_id, secret)


def revoke_key(data: Path, number: int) -> None:
    async def revoke() -> None:
        async with open_sqlite_keys(data) as keys:
            await keys.revoke(f"{number:012x}", time.time_ns() // 1_000_000)

    anyio.run(revoke)
