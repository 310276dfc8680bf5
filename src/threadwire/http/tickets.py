"""Issuing tickets: one-time credentials for requests that a browser makes without headers."""

import secrets

from threadwire.core.api_keys import digest_of
from threadwire.core.users import Caller
from threadwire.engine.clock import system_clock
from threadwire.http.authentication import grant_of
from threadwire.storage.abc import Tickets


async def issue_ticket(
    tickets: Tickets, caller: Caller, seconds: float, path_end: str | None = None
) -> tuple[str, int]:
    """Return a new ticket for the caller, and when it expires. With `path_end`, the ticket is accepted only for paths
    that end with it, and also for `PUT`."""
    now, ticket = system_clock(), secrets.token_hex(32)
    expires_at = now + round(seconds * 1000)
    await tickets.issue(digest_of(ticket), grant_of(caller, path_end), expires_at, now)
    return ticket, expires_at
