"""Rows as they come from the database, and the JSON in their columns."""

from collections.abc import Sequence
from typing import Any

import apsw
import orjson

from threadwire.core import json


def fetch(db: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows. Reading to the end is what closes the read transaction."""
    return db.execute(sql, bindings).fetchall()


def to_text(value: Any) -> str:
    return json.dumps(value).decode()


def to_text_or_null(value: Any) -> str | None:
    """None is no value at all, so that "has none" can be asked without reading JSON."""
    return None if value is None else json.dumps(value).decode()


def from_text(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def bindable(text: str) -> str | bytes:
    """Text that has no UTF-8 form is bound as bytes, which equal no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def unbound(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")


class one_moment:
    """A read transaction: rows must not be removed between two looks at them."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN")

    def __exit__(self, *error: object) -> None:
        if self._db.in_transaction:  # SQLite ends it by itself when it cannot read
            self._db.execute("END")
