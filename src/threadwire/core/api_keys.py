"""API keys: what is stored for a key, and how the key that a client sends is compared with it.

A key has the form `tw_<id>_<secret>`. The id is public and identifies the row. The secret has 256 random bits and
cannot be guessed, so a plain SHA-256 of it can be stored.
"""

import hmac
import re
from dataclasses import dataclass
from hashlib import sha256

_KEY = re.compile(r"tw_([0-9a-f]{12})_([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored: everything but the secret."""

    key_id: str
    digest: bytes
    """The SHA-256 of the secret."""
    user: str
    """The identity of the user that the key authenticates."""
    created_at: int
    name: str = ""
    permissions: tuple[str, ...] = ()
    expires_at: int | None = None
    revoked_at: int | None = None

    def is_valid(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def has_secret(self, secret: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.digest, digest_of(secret))


def digest_of(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def key_text(key_id: str, secret: str) -> str:
    return f"tw_{key_id}_{secret}"


def parse_key(text: str) -> tuple[str, str] | None:
    """Return the id and the secret of a key, or None if the text is not a key."""
    matched = _KEY.fullmatch(text)
    return None if matched is None else (matched[1], matched[2])
