"""The tables of the SQLite driver, and how their rows become those of the PostgreSQL driver.

The two schemas have the same tables and columns. They differ in how ids and text are stored, and PostgreSQL has a few
columns that are computed from others.
"""

import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import apsw

from threadwire.storage.postgres.id_keys import key_of
from threadwire.storage.postgres.items import item_name
from threadwire.storage.postgres.json_columns import searchable
from threadwire.storage.postgres.run_rows import idempotency_digest
from threadwire.storage.postgres.text_columns import escaped, escaped_or_null
from threadwire.storage.sqlite.id_keys import name_of

Row = tuple[Any, ...]
Convert = Callable[[Any], Any]
Compute = Callable[[Mapping[str, Any]], Any]


def _same(value: Any) -> Any:
    return value


def _key(value: Any) -> bytes | None:
    return None if value is None else key_of(name_of(value))


def _flag(value: Any) -> bool:
    return bool(value)


def _json_object(value: Any) -> str:
    """A JSON object. The column is null in rows that older versions wrote."""
    return "{}" if value is None else str(value)


def _vector(value: bytes) -> list[float]:
    return array("f", value).tolist()


_CONVERSIONS: dict[str, Convert] = {
    "=": _same,
    "id": _key,
    "text": escaped_or_null,
    "flag": _flag,
    "json": _json_object,
}


def _columns(**kinds: str) -> dict[str, Convert]:
    """The columns by how they are converted: unchanged, ids, text, flags, and JSON objects that may be missing."""
    names = {"same": "="}
    return {name: _CONVERSIONS[names.get(kind, kind)] for kind, listed in kinds.items() for name in listed.split()}


def _search(row: Mapping[str, Any]) -> str:
    return searchable(_json_object(row["metadata"]))


def _idempotency_digest(row: Mapping[str, Any]) -> bytes | None:
    key = row["idempotency_key"]
    return None if key is None else idempotency_digest(row["owner"], key)


@dataclass(frozen=True)
class Table:
    name: str
    columns: Mapping[str, Convert]
    computed: Mapping[str, Compute] = field(default_factory=dict)
    """Columns that only PostgreSQL has."""
    source: str | None = None
    """What to select from, if it is not the table itself."""
    used: tuple[str, ...] = ()
    """Columns of the source that only the computed columns need."""
    counted_by: str | None = None
    """The column that numbers the rows, if the database generates its values."""

    def rows(self, db: apsw.Connection) -> Iterator[Row]:
        """The rows as PostgreSQL stores them: first the columns of both databases, then the computed ones."""
        selected = (*self.columns, *self.used)
        for values in db.execute(f"SELECT {', '.join(selected)} FROM {self.source or self.name}"):
            row = dict(zip(selected, values, strict=True))
            converted = [convert(row[name]) for name, convert in self.columns.items()]
            yield *converted, *(compute(row) for compute in self.computed.values())


_RUN_COLUMNS = _columns(
    same="position created_at updated_at due_at queued_seq attempt crashes ended_seq started_at metadata kwargs error"
    " status multitask cancel via thread_was",
    id="run thread assistant",
    text="graph_id idempotency_key request_digest webhook owner",
    flag="temporary first",
)

TABLES = (
    Table(
        "assistants",
        _columns(
            same="created_at updated_at version config context metadata", id="assistant",
            text="graph_id name description owner",
        ),
        {"search": _search, "lower_name": lambda row: escaped(row["name"].lower())},
    ),
    Table(
        "assistant_versions",
        _columns(same="version created_at config context metadata", id="assistant", text="graph_id name description"),
        {"search": _search},
    ),
    Table(
        "threads",
        _columns(
            same="created_at updated_at active status state_updated_at metadata config error ttl_minutes ttl_strategy"
            " pruned_at",
            id="thread",
            text="owner",
        ),
        {"search": _search},
    ),
    Table("thread_state", _columns(same="vals interrupts", id="thread")),
    Table("discarded_threads", _columns(same="at", id="thread", json="metadata"), {"search": _search}),
    Table("deleted_threads", _columns(same="number", id="thread"), counted_by="number"),
    Table("runs", _RUN_COLUMNS, {"idempotency_digest": _idempotency_digest}, counted_by="position"),
    Table("segments", _columns(same="first_seq n attempt at packed data", id="thread run")),
    Table("checkpoints", _columns(same="type data metadata", id="thread run", text="ns checkpoint parent")),
    Table("checkpoint_blobs", _columns(same="type data", id="thread", text="ns channel version")),
    Table(
        "checkpoint_writes",
        _columns(same="idx type data", id="thread run", text="ns checkpoint task path channel"),
    ),
    Table("fold_snapshots", _columns(same="name seq packed data", id="thread")),
    Table(
        "crons",
        _columns(
            same="end_time next_run_at last_run_at multitask metadata payload kwargs created_at updated_at",
            id="cron assistant thread", text="schedule timezone owner", flag="keep_threads enabled",
        ),
        {"search": _search},
    ),
    Table("deliveries", _columns(same="delivery run vals due_at tries"), counted_by="delivery"),
    Table(
        "items",
        _columns(same="position namespace value created_at updated_at ttl expires_at", text="key owner"),
        {
            "search": lambda row: searchable(row["value"]),
            "name": lambda row: item_name(tuple(json.loads(row["namespace"])), row["key"]),
        },
        counted_by="position",
    ),
    Table(
        "item_vectors",
        {"n": _same, "vector": _vector},
        {"name": lambda row: item_name(tuple(json.loads(row["namespace"])), row["key"])},
        source="item_vectors JOIN items ON items.position = item_vectors.item",
        used=("namespace", "key"),
    ),
)  # fmt: skip
