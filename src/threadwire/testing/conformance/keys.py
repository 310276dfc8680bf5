"""Conformance tests for API keys and tickets."""

from dataclasses import replace

import pytest

from threadwire.core.api_keys import ApiKey
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import NOW

KEY = ApiKey("0123456789ab", bytes(range(32)), "ada", NOW)
FULL = ApiKey(
    "ba9876543210",
    bytes(range(32, 64)),
    "grace@navy.example",
    NOW + 1,
    name="Ship's ⚓ key",
    permissions=("threads:read", "ü"),
    expires_at=NOW + 1000,
)


class KeysConformance:
    pytestmark = pytest.mark.anyio

    async def test_a_key_is_found_as_it_was_stored(self, storage: Storage) -> None:
        await storage.keys.create(KEY)
        await storage.keys.create(FULL)
        assert await storage.keys.find([KEY.key_id]) == {KEY.key_id: KEY}
        assert await storage.keys.find([FULL.key_id, KEY.key_id]) == {KEY.key_id: KEY, FULL.key_id: FULL}

    async def test_unknown_keys_are_left_out(self, storage: Storage) -> None:
        await storage.keys.create(KEY)
        assert await storage.keys.find([]) == {}
        assert await storage.keys.find(["", "' OR 1 --", "nul\0", KEY.key_id[:-1], KEY.key_id.upper()]) == {}

    async def test_an_id_is_taken_once(self, storage: Storage) -> None:
        await storage.keys.create(KEY)
        with pytest.raises(Conflict):
            await storage.keys.create(replace(FULL, key_id=KEY.key_id))
        assert await storage.keys.list() == [KEY]

    async def test_keys_are_listed_oldest_first(self, storage: Storage) -> None:
        same_time = replace(KEY, key_id="0123456789aa")
        for key in (FULL, KEY, same_time):
            await storage.keys.create(key)
        assert await storage.keys.list() == [same_time, KEY, FULL]

    async def test_a_revoked_key_is_still_found_and_listed(self, storage: Storage) -> None:
        await storage.keys.create(FULL)
        await storage.keys.create(KEY)
        revoked = replace(FULL, revoked_at=NOW + 5)
        assert await storage.keys.revoke(FULL.key_id, NOW + 5) == revoked
        assert await storage.keys.find([FULL.key_id]) == {FULL.key_id: revoked}
        assert await storage.keys.list() == [KEY, revoked]

    async def test_revoking_again_keeps_the_time(self, storage: Storage) -> None:
        await storage.keys.create(KEY)
        await storage.keys.revoke(KEY.key_id, NOW + 5)
        assert (await storage.keys.revoke(KEY.key_id, NOW + 9)).revoked_at == NOW + 5

    async def test_revoking_an_unknown_key_is_rejected(self, storage: Storage) -> None:
        with pytest.raises(NotFound):
            await storage.keys.revoke(KEY.key_id, NOW)
        assert await storage.keys.list() == []

    async def test_a_key_cannot_be_created_again_after_it_was_revoked(self, storage: Storage) -> None:
        await storage.keys.create(KEY)
        await storage.keys.revoke(KEY.key_id, NOW + 5)
        with pytest.raises(Conflict):
            await storage.keys.create(KEY)

    async def test_a_ticket_is_redeemed_once(self, storage: Storage) -> None:
        grant = {"user": {"identity": "ada", "tags": ["ü"]}, "key_id": None}
        await storage.tickets.issue(b"one", grant, NOW + 10, NOW)
        await storage.tickets.issue(b"other", {}, NOW + 10, NOW)
        assert await storage.tickets.redeem(b"one", NOW + 9) == grant
        assert await storage.tickets.redeem(b"one", NOW + 9) is None
        assert await storage.tickets.redeem(b"other", NOW + 9) == {}

    async def test_an_expired_or_unknown_ticket_grants_nothing(self, storage: Storage) -> None:
        await storage.tickets.issue(b"one", {}, NOW + 10, NOW)
        assert await storage.tickets.redeem(b"one", NOW + 10) is None
        assert await storage.tickets.redeem(b"one", NOW) is None
        assert await storage.tickets.redeem(b"unknown", NOW) is None
