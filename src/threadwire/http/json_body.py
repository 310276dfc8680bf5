"""Parsing a request body as JSON, with limits on its nesting depth and on its integers."""

import json
from itertools import accumulate
from typing import Any

import orjson

from threadwire.core.json import fits_64_bits, may_have_wide_integers
from threadwire.errors import Invalid, TooDeep

MAX_DEPTH = 100


def parse_json(body: bytes) -> Any:
    """Parse a request body. Raises `Invalid` or `TooDeep`."""
    if _depth_beyond(body, MAX_DEPTH):
        raise TooDeep(f"The request body is nested more than {MAX_DEPTH} levels deep")
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Invalid("Invalid JSON in request body") from error
    if may_have_wide_integers(body):
        json.loads(body, parse_int=_require_64_bits)
    return parsed


def _require_64_bits(digits: str) -> None:
    """Reject an integer that orjson has turned into a float. Otherwise it would silently lose digits."""
    if not fits_64_bits(digits):
        raise Invalid(f"The integer {digits[:40]} in the request body does not fit into 64 bits; send it as a string")


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
