"""The driver for several processes: everything in one PostgreSQL database."""

from threadwire.storage.postgres.driver import open_postgres_storage
from threadwire.storage.postgres.keys import open_postgres_keys

__all__ = ["open_postgres_keys", "open_postgres_storage"]
