"""`threadwire keys`: create, list and revoke API keys."""

import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio
from rich.console import Console
from rich.table import Table

from threadwire.cli.serve_command import read_settings
from threadwire.core.api_keys import ApiKey, digest_of, key_text
from threadwire.core.timestamps import to_datetime
from threadwire.engine.clock import system_clock
from threadwire.errors import ConfigError, NotFound
from threadwire.server.storages import open_keys
from threadwire.storage.abc import Keys

T = TypeVar("T")
Options = dict[str, Any]
"""The project and the storage, as options of the command line."""

_DURATION = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def create_key(
    options: Options, user: str, name: str, permissions: Sequence[str], expires: str | None, console: Console
) -> None:
    """Create a key and print it. It cannot be shown again: only its hash is stored."""
    if not user.strip():
        raise ConfigError("Invalid value for --user: it must not be empty")
    now, key_id, secret = system_clock(), secrets.token_hex(6), secrets.token_hex(32)
    expires_at = None if expires is None else now + _duration(expires)
    key = ApiKey(key_id, digest_of(secret), user, now, name, tuple(permissions), expires_at)
    _run(options, lambda keys: keys.create(key))
    console.print(key_text(key_id, secret), soft_wrap=True)


def list_keys(options: Options, console: Console) -> None:
    keys, now = _run(options, lambda keys: keys.list()), system_clock()
    if not keys:
        console.print("No keys.")
        return
    table = Table("id", "user", "name", "permissions", "created", "expires", "status", box=None)
    for key in keys:
        status = "revoked" if key.revoked_at is not None else "valid" if key.is_valid(now) else "expired"
        times = (_time(key.created_at), _time(key.expires_at))
        table.add_row(key.key_id, key.user, key.name, " ".join(key.permissions), *times, status)
    console.print(table)


def revoke_key(options: Options, key_id: str, console: Console) -> None:
    """Revoke a key. Servers reject it immediately, and end its open streams within seconds."""
    try:
        _run(options, lambda keys: keys.revoke(key_id, system_clock()))
    except NotFound as error:
        raise ConfigError(f"No key has the id {key_id!r}. `threadwire keys list` shows all of them.") from error
    console.print(f"Revoked {key_id}.")


def has_keys(options: Options, *, in_container: bool) -> bool:
    return bool(_run(options, lambda keys: keys.list(), in_container=in_container))


def _run(options: Options, operation: Callable[[Keys], Awaitable[T]], *, in_container: bool = True) -> T:
    """Use the keys of the database that `serve` would use; without `in_container`, of the one that `dev` would use."""

    async def run() -> T:
        async with open_keys(read_settings(in_container=in_container, **options)) as keys:
            return await operation(keys)

    return anyio.run(run)


def _duration(text: str) -> int:
    matched = _DURATION.fullmatch(text)
    if matched is None or int(matched[1]) == 0:
        raise ConfigError(f"Invalid value for --expires-in: {text!r}. Use a value like 30d, 12h or 45m.")
    return int(matched[1]) * _UNITS[matched[2]]


def _time(at: int | None) -> str:
    return "" if at is None else to_datetime(at).strftime("%Y-%m-%d %H:%M")
