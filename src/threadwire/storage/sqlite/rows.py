"""Fetch rows, and convert the JSON and text in their columns."""

from collections.abc import Sequence
from typing import Any

import apsw
import orjson

from threadwire.core import json


def fetch(db: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return all rows. Reading to the end closes the read transaction."""
    return db.execute(sql, bindings).fetchall()


def to_text(value: Any) -> str:
    return json.dumps(value).decode()


def to_text_or_null(value: Any) -> str | None:
    """Like `to_text`, but None becomes NULL, so that a query can test for a missing value without parsing JSON."""
    return None if value is None else json.dumps(value).decode()


def from_text(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def bindable(text: str) -> str | bytes:
    """Return a value to bind. Text that UTF-8 cannot encode is bound as bytes, which are equal to no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def from_bindable(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")


class read_transaction:
    """A read transaction, so that all queries in the block see the same rows."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN")

    def __exit__(self, *error: object) -> None:
        if self._db.in_transaction:  # after a read error, SQLite may have ended it already
            self._db.execute("END")
