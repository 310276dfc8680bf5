"""JSON Web Tokens signed with HS256, as an identity provider would issue them."""

import hmac
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

SECRET = b"the secret of the full-stack example"
HEADER = {"alg": "HS256", "typ": "JWT"}


def encode(claims: dict[str, Any]) -> str:
    signed = f"{_part(json.dumps(HEADER).encode())}.{_part(json.dumps(claims).encode())}"
    return f"{signed}.{_signature(signed)}"


def decode(token: str) -> dict[str, Any]:
    """Return the claims. Raises `ValueError` if the token is not valid or has expired."""
    signed, _, signature = token.rpartition(".")
    if not hmac.compare_digest(signature, _signature(signed)):
        raise ValueError("invalid signature")
    body = signed.partition(".")[2]
    claims: dict[str, Any] = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    if claims["exp"] <= time.time():
        raise ValueError("expired")
    return claims


def _signature(signed: str) -> str:
    return _part(hmac.digest(SECRET, signed.encode(), "sha256"))


def _part(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
