from typing import Any

from threadwire.core.json import native


class MemoryTickets:
    def __init__(self) -> None:
        self._tickets: dict[bytes, tuple[dict[str, Any], int]] = {}

    async def issue(self, digest: bytes, grant: dict[str, Any], expires_at: int, now: int) -> None:
        self._tickets = {each: ticket for each, ticket in self._tickets.items() if ticket[1] > now}
        self._tickets[digest] = native(grant), expires_at

    async def redeem(self, digest: bytes, now: int) -> dict[str, Any] | None:
        ticket = self._tickets.pop(digest, None)
        return ticket[0] if ticket is not None and ticket[1] > now else None
