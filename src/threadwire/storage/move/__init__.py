"""Moves a SQLite data directory into an empty PostgreSQL database."""

from threadwire.storage.move.moving import move

__all__ = ["move"]
