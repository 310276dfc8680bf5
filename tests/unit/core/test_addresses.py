import pytest

from threadwire.core.addresses import redacted


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://user:secret@db:5432/name", "postgresql://user:***@db:5432/name"),
        ("postgresql://user:s@cr@t@db/name", "postgresql://user:***@db/name"),
        ("postgresql://:secret@db/name", "postgresql://:***@db/name"),
        ("postgresql://user@db/name", "postgresql://user@db/name"),
        ("postgresql://db/name?password=secret&sslmode=require", "postgresql://db/name?password=***&sslmode=require"),
        ("postgresql:///name?host=/var/run/postgresql", "postgresql:///name?host=/var/run/postgresql"),
        ("postgresql://a:1,b:2/name", "postgresql://a:1,b:2/name"),
        ("rediss://:secret@cache:6380/0", "rediss://:***@cache:6380/0"),
        ("host=db password=secret", "***"),
        ("postgresql://user:secret@[db/name", "***"),
        ("secret", "***"),
    ],
)
def test_no_secret_is_shown(address: str, shown: str) -> None:
    assert redacted(address) == shown
