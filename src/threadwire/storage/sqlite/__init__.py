"""The embedded driver: everything in one SQLite file, written by one thread."""

from threadwire.storage.sqlite.driver import open_sqlite_storage

__all__ = ["open_sqlite_storage"]
