"""The embedded driver: everything in one SQLite file, with one writer."""

from threadwire.storage.sqlite.driver import open_sqlite_storage

__all__ = ["open_sqlite_storage"]
