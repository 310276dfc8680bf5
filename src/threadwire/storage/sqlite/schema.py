"""Open connections to the database file, and migrate older files."""

from collections.abc import Set
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw
import orjson

from threadwire.core.access_filter import AccessFilter
from threadwire.core.store_items import matches_filter
from threadwire.core.temporary_caches import temporary_cache
from threadwire.errors import StorageError
from threadwire.storage.abc import contains, name_contains
from threadwire.storage.sqlite import write_ahead_log
from threadwire.storage.sqlite.integrity import quick_check
from threadwire.storage.sqlite.metadata_labels import labels_of

_BUSY_MS = 10_000


def migrations() -> list[str]:
    """The migration scripts in order. The n-th one migrates to schema version n."""
    folder = files("threadwire.storage.sqlite") / "migrations"
    found = sorted((path for path in folder.iterdir() if path.name.endswith(".sql")), key=lambda path: path.name)
    return [path.read_text(encoding="utf-8") for path in found]


def open_writer(path: Path) -> apsw.Connection:
    """Check and migrate the file, and open the only connection that writes to it."""
    db = apsw.Connection(str(path), statementcachesize=256)
    try:
        db.set_busy_timeout(_BUSY_MS)
        # Allows freed pages to be released later. Can only be set before the first table is created.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # the writer syncs before it acknowledges; see writer.py
        db.execute("PRAGMA checkpoint_fullfsync = ON")  # before the log is overwritten; see syncing.py
        db.execute("PRAGMA cache_size = -16000")
        db.execute("PRAGMA journal_size_limit = 67108864")
        db.create_scalar_function("labels_in", _labels_in, 2, deterministic=True)
        db.create_scalar_function("labels_in_both", _labels_in_both, 2, deterministic=True)
        db.create_scalar_function("access_allows", _access_allows, 2, deterministic=True)
        quick_check(db)
        write_ahead_log.checkpoint_at_start(db)
        migrate(db, migrations())
        write_ahead_log.preallocate(db, path)
    except BaseException:
        db.close()
        raise
    return db


def migrate(db: apsw.Connection, scripts: list[str]) -> None:
    version = db.pragma("user_version")
    if version > len(scripts):
        raise StorageError(
            f"The database was written by a newer Threadwire (schema version {version}; this one supports up to"
            f" {len(scripts)}). Upgrade Threadwire, or use another data directory."
        )
    for number, script in enumerate(scripts[version:], version + 1):
        with db:  # a transaction, so that a migration is applied completely or not at all
            db.execute(script)
            db.execute(f"PRAGMA user_version = {number}")


def open_reader(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=128)
    db.set_busy_timeout(_BUSY_MS)
    db.execute("PRAGMA query_only = ON; PRAGMA cache_size = -4000")
    db.pragma("schema_version")  # a read, which opens every file that later reads need
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # only the writer knows whether a checkpoint is allowed
    db.create_scalar_function("json_contains", _json_contains, 2, deterministic=True)
    db.create_scalar_function("is_named", _is_named, 2, deterministic=True)
    db.create_scalar_function("access_allows", _access_allows, 2, deterministic=True)
    db.create_scalar_function("json_satisfies", _json_satisfies, 2, deterministic=True)
    return db


def _labels_in(*metadata: Any) -> str:
    """The labels of the first metadata, without those that the second metadata (which may be null) has too. Called by
    the triggers that maintain the labels. In hexadecimal, because JSON has no bytes."""
    one, other = metadata
    return _as_json(_labels(one) - (_labels(other) if other is not None else set()))


def _labels_in_both(*metadata: Any) -> str:
    one, other = metadata
    return _as_json(_labels(one) & _labels(other))


def _labels(metadata: str) -> frozenset[bytes]:
    return _cached_labels(metadata) if len(metadata) < 4096 else frozenset(labels_of(orjson.loads(metadata)))


@temporary_cache(maxsize=256)
def _cached_labels(metadata: str) -> frozenset[bytes]:
    """Cached, because a trigger asks several times and many threads have the same metadata."""
    return frozenset(labels_of(orjson.loads(metadata)))


def _as_json(labels: Set[bytes]) -> str:
    return "[" + ",".join(f'"{label.hex()}"' for label in labels) + "]"


def _json_contains(*arguments: Any) -> bool:
    """`part` is passed as a Python object (`apsw.pyobject`), so it is not parsed for every row."""
    whole, part = arguments
    return contains(None if whole is None else orjson.loads(whole), part)


def _access_allows(*arguments: Any) -> bool:
    """No filter allows rows without metadata, such as threads that an older version discarded."""
    metadata, access = arguments
    assert isinstance(access, AccessFilter)
    return metadata is not None and access.matches(orjson.loads(metadata))


def _is_named(*arguments: Any) -> bool:
    """Used instead of LIKE, which ignores case only for ASCII and treats `%` as a wildcard."""
    name, part = arguments
    return name_contains(name, part)


def _json_satisfies(*arguments: Any) -> bool:
    value, wanted = arguments
    return matches_filter(orjson.loads(value), wanted)
