"""Ids as stored in the database: 16 bytes for a UUID; for anything else a zero byte and its text.

Bytes, because an id may be any string, and PostgreSQL's text cannot hold every character.
"""

from threadwire.core.temporary_caches import temporary_cache

_TEXT = b"\0"


@temporary_cache(maxsize=65_536)
def key_of(name: str) -> bytes:
    raw = _uuid_bytes(name)
    # Only ids that convert back to the same text may be shortened, or two ids could share a key.
    if raw is not None and _uuid_text(raw) == name and not raw.startswith(_TEXT):
        return raw
    return _TEXT + name.encode("utf-8", "surrogatepass")


@temporary_cache(maxsize=65_536)
def name_of(key: bytes) -> str:
    return key[1:].decode("utf-8", "surrogatepass") if key.startswith(_TEXT) else _uuid_text(key)


def _uuid_bytes(name: str) -> bytes | None:
    try:
        raw = bytes.fromhex(name.replace("-", ""))
    except ValueError:
        return None
    return raw if len(raw) == 16 else None


def _uuid_text(raw: bytes) -> str:
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
