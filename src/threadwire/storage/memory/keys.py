from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from threadwire.core.api_keys import ApiKey
from threadwire.errors import Conflict, NotFound


class MemoryKeys:
    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}

    async def create(self, key: ApiKey) -> None:
        if key.key_id in self._keys:
            raise Conflict(f"Key {key.key_id} already exists")
        self._keys[key.key_id] = key

    async def find(self, key_ids: Collection[str]) -> Mapping[str, ApiKey]:
        return {key_id: self._keys[key_id] for key_id in key_ids if key_id in self._keys}

    async def list(self) -> Sequence[ApiKey]:
        return sorted(self._keys.values(), key=lambda key: (key.created_at, key.key_id))

    async def revoke(self, key_id: str, now: int) -> ApiKey:
        if key_id not in self._keys:
            raise NotFound(f"Key {key_id} not found")
        key = self._keys[key_id]
        self._keys[key_id] = revoked = key if key.revoked_at is not None else replace(key, revoked_at=now)
        return revoked
