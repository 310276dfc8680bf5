from dataclasses import replace

import pytest

from threadwire.core.api_keys import ApiKey, digest_of, key_text, parse_key

SECRET = "5e" * 32
KEY = ApiKey("0123456789ab", digest_of(SECRET), "ada", created_at=1000)


def test_a_key_is_parsed_into_its_id_and_secret() -> None:
    assert parse_key(key_text(KEY.key_id, SECRET)) == (KEY.key_id, SECRET)


@pytest.mark.parametrize(
    "text", ["", "tw_", "tw_0123456789ab_", f"tw_0123456789ab_{SECRET}\n", f"sk_0123456789ab_{SECRET}"]
)
def test_other_text_is_not_a_key(text: str) -> None:
    assert parse_key(text) is None


def test_only_its_own_secret_fits_a_key() -> None:
    assert KEY.has_secret(SECRET)
    assert not KEY.has_secret("5f" * 32)
    assert not KEY.has_secret("")


def test_a_key_is_valid_until_it_expires_or_is_revoked() -> None:
    assert KEY.is_valid(10**15)
    expiring = replace(KEY, expires_at=2000)
    assert expiring.is_valid(1999)
    assert not expiring.is_valid(2000)
    assert not replace(KEY, revoked_at=1500).is_valid(1400)
