"""Parsing a request body as JSON, with a limit on its nesting depth."""

from itertools import accumulate
from typing import Any

import orjson

from threadwire.errors import Invalid, TooDeep

MAX_DEPTH = 100


def parse_json(body: bytes) -> Any:
    """Parse a request body. Raises `Invalid` or `TooDeep`."""
    if _depth_beyond(body, MAX_DEPTH):
        raise TooDeep(f"The request body is nested more than {MAX_DEPTH} levels deep")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Invalid("Invalid JSON in request body") from error


def _depth_beyond(body: bytes, limit: int) -> bool:
    """Whether brackets outside strings nest deeper than `limit`.

    This runs on the event loop that serves every client, on bytes that may not be JSON, so each step is a single pass.
    (A regular expression for strings would restart at every quote of an unterminated string.) The result for invalid
    JSON does not matter: it is rejected in any case.
    """
    if body.count(b"{") + body.count(b"[") <= limit:
        return False
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(brackets).cast("b")), default=0) > limit


_STEPS = bytes.maketrans(b"{[}]", bytes([1, 1, 255, 255]))  # 255 is -1 as a signed byte
_NO_BRACKETS = bytes(set(range(256)) - set(b"{[}]"))
