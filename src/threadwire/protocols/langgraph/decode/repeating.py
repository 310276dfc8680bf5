"""Requests that may be sent again: what their `Idempotency-Key` stands for."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import orjson

from threadwire.core.ids import ThreadId
from threadwire.protocols.langgraph.decode.body import RequestBody


@dataclass(frozen=True, slots=True)
class Repeatable:
    key: str
    digest: str
    """Of all that is asked for. Unknown fields and the order of the others do not count, nor do defaults that are
    written out."""

    def part(self, number: int) -> "Repeatable":
        """One of the runs that the request asks for."""
        return Repeatable(f"{self.key}/{number}", self.digest)


def repeatable(
    key: str | None, what: str, bodies: Sequence[RequestBody], thread_id: ThreadId | None = None
) -> Repeatable | None:
    """A request with a key, of which `what` says how it is to be answered; None for one without, or with an empty
    one."""
    if not key:
        return None
    asked = [what, thread_id, [body.model_dump(exclude_defaults=True) for body in bodies]]
    return Repeatable(key, sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest())
