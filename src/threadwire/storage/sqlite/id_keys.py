"""Ids as stored in the database: 16 bytes for a UUID, the text itself for anything else."""

from threadwire.core.temporary_caches import temporary_cache

Key = bytes | str


@temporary_cache(maxsize=65_536)
def key_of(name: str) -> Key:
    try:
        raw = bytes.fromhex(name.replace("-", ""))
    except ValueError:
        return name
    # Only ids that convert back to the same text may be shortened, or two ids could share a key.
    return raw if len(raw) == 16 and name_of(raw) == name else name


@temporary_cache(maxsize=65_536)
def name_of(key: Key) -> str:
    if isinstance(key, str):
        return key
    digits = key.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
