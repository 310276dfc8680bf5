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
