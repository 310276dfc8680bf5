"""The embedded driver: one SQLite file with one writer, and a second, small one for API keys."""

from threadwire.storage.sqlite.driver import open_sqlite_keys, open_sqlite_storage

__all__ = ["open_sqlite_keys", "open_sqlite_storage"]
