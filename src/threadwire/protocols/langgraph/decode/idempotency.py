"""The `Idempotency-Key` of a request, with a digest that detects a different request with the same key."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import orjson

from threadwire.core.ids import ThreadId
from threadwire.protocols.langgraph.decode.body import RequestBody


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    key: str
    digest: str
    """A digest of the request. Unknown fields, the order of fields, and explicit defaults do not change it."""

    def part(self, number: int) -> "IdempotentRequest":
        """The key of one of several runs that the request starts."""
        return IdempotentRequest(f"{self.key}/{number}", self.digest)


def idempotent_request(
    key: str | None, operation: str, bodies: Sequence[RequestBody], thread_id: ThreadId | None = None
) -> IdempotentRequest | None:
    """The key and the digest of a request; None if its key is missing or empty."""
    if not key:
        return None
    request = [operation, thread_id, [body.model_dump(exclude_defaults=True) for body in bodies]]
    return IdempotentRequest(key, sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest())
