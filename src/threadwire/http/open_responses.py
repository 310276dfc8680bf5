"""Responses that are still being sent. They end when the credential of their request ends.

A stream may stay open for hours. When its API key is revoked or expires, or the `exp` of its user passes, its
connection is aborted. The client's next attempt to connect is rejected.
"""

from dataclasses import dataclass, field

import anyio
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadwire.core.users import Caller
from threadwire.engine.clock import Clock
from threadwire.errors import StorageError
from threadwire.http.streaming import abort
from threadwire.storage.abc import Keys

CHECK_SECONDS = 1.0
"""Seconds between two checks of the credentials of open responses."""

POLICY_VIOLATION = 1008
"""The close code of a WebSocket whose credential has ended."""

logger = structlog.get_logger("threadwire.auth")


@dataclass(eq=False, slots=True)
class _OpenResponse:
    caller: Caller
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    has_started: bool = False
    """Whether the response has started. Until then, the request may be changing something, so it is not interrupted."""


class OpenResponses:
    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._open: set[_OpenResponse] = set()

    async def run(self, caller: Caller, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application for a request until the response or the credential ends."""
        if caller.key_id is None and caller.expires_at is None:
            await app(scope, receive, send)
            return
        response = _OpenResponse(caller)

        async def noting_start(message: Message) -> None:
            response.has_started = True
            await send(message)

        self._open.add(response)
        try:
            with response.scope:
                await app(scope, receive, noting_start)
        finally:
            self._open.discard(response)
        if response.scope.cancelled_caught:
            logger.info("stream_ended", reason="The credential is no longer valid.", user=caller.user.owner)
            await _end(scope, receive, send)

    async def check_forever(self) -> None:
        while True:
            await anyio.sleep(CHECK_SECONDS)
            try:
                await self.check()
            except StorageError as error:
                logger.warning("credential_check_failed", error=error.message)

    async def check(self) -> None:
        """End every response whose credential has ended."""
        started = [response for response in self._open if response.has_started]
        if not started:
            return
        keys = await self._keys.find({each.caller.key_id for each in started if each.caller.key_id is not None})
        now = self._clock()
        for response in started:
            caller = response.caller
            key = None if caller.key_id is None else keys.get(caller.key_id)
            expired = caller.expires_at is not None and caller.expires_at <= now
            if expired or (caller.key_id is not None and (key is None or not key.is_valid(now))):
                response.scope.cancel()


async def _end(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        with anyio.move_on_after(1):
            reason = "the credential is no longer valid"
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason})
        return
    await abort(scope, receive)
