"""How threads are found: which index leads to them, and in which order.

There are three ways: from a label of their metadata, from their status, or along the order that is asked for until the
page is full. The first two are taken when they lead to few threads, or already come in the order that is asked for. A
filter that most threads pass costs little along the way, and one that few pass is an index; which is which is known,
because the threads of each label and status are counted. So a page costs the same among many threads as among few, and
so does its total for one label, one status, or both.

Only ever placeholders: what a client sends is bound, and its keys are compared (`labels`, `contains`) and never read.
"""

from dataclasses import replace
from typing import Any, NamedTuple, get_args

import apsw

from threadwire.core.records import ThreadQuery, ThreadStatus
from threadwire.storage.sqlite.keys import Key, key_of
from threadwire.storage.sqlite.labels import CROWDED, EVERY, Wanted, wanted_of
from threadwire.storage.sqlite.rows import fetch

FEW = 2000
"""Threads that are sorted where they lead, rather than looked for along the way."""

_STATUSES: tuple[ThreadStatus, ...] = get_args(ThreadStatus)
_BY_ID = "threads AS t INDEXED BY sqlite_autoindex_threads_1"
_ALONG = {
    "thread_id": (_BY_ID, ("t.thread",)),
    "created_at": ("threads AS t INDEXED BY threads_created", ("t.created_at", "t.thread")),
    "updated_at": ("threads AS t INDEXED BY threads_updated", ("t.updated_at", "t.thread")),
    "state_updated_at": ("threads AS t INDEXED BY threads_state_updated", ("t.state_updated_at", "t.thread")),
}
_HAS_LABEL = """EXISTS (SELECT 1 FROM thread_labels AS l
                 WHERE l.label = ? AND l.created_at = t.created_at AND l.thread = t.thread)"""
_HOLDS = "json_contains((SELECT s.vals FROM thread_state AS s WHERE s.thread = t.thread), ?)"


class _Way(NamedTuple):
    """A table to start from, and what restricts it, with the values to bind."""

    source: str
    term: str
    bindings: list[Any]
    size: int
    """How many threads there are on it, at most."""
    order: str | None = None
    """What it is sorted by already."""
    label: bytes | None = None
    status: bool = False


def page(query: ThreadQuery, db: apsw.Connection) -> list[Key]:
    """The threads of one page, in order."""
    if query.sort_by == "status":
        return _status_by_status(query, db)
    wanted, way = _choose(query, db)
    terms, bindings = _terms(query, wanted, way)
    source, columns = _ALONG[query.sort_by]
    if way is not None:
        source = way.source
        if way.label is not None and query.sort_by == "created_at":
            columns = ("d.created_at", "d.thread")
    direction = "DESC" if query.descending else "ASC"
    order = ", ".join(f"{column} {direction}" for column in columns)
    sql = f"SELECT t.thread FROM {source} {terms} ORDER BY {order} LIMIT ? OFFSET ?"
    return [thread for (thread,) in fetch(db, sql, [*bindings, query.limit, query.offset])]


def _status_by_status(query: ThreadQuery, db: apsw.Connection) -> list[Key]:
    """Sorting by status is to go through one status after the other, each by its last update."""
    found: list[Key] = []
    offset = query.offset
    for status in sorted(_STATUSES, reverse=query.descending):
        if query.status not in (None, status) or len(found) == query.limit:
            continue
        alike = replace(query, status=status, sort_by="updated_at", limit=query.limit - len(found), offset=offset)
        if keys := page(alike, db):
            found += keys
            offset = 0
        elif offset:
            offset -= count(alike, db)
    return found


def count(query: ThreadQuery, db: apsw.Connection) -> int:
    wanted, way = _choose(query, db, all_of_them=True)
    if wanted.exact and len(wanted.labels) <= 1 and not (query.ids or query.values or query.status == "busy"):
        label = wanted.labels[0] if wanted.labels else EVERY
        return _counted(db, label, query.status) - _busy_among(db, label, query.status)
    terms, bindings = _terms(query, wanted, way)
    source = "threads AS t" if way is None else way.source
    return int(db.execute(f"SELECT count(*) FROM {source} {terms}", bindings).get)


def _counted(db: apsw.Connection, label: bytes, status: str | None = None) -> int:
    """How many have the label, and the status if there is one. Busy ones count as what they settled on before."""
    sql = "SELECT ifnull(sum(n), 0) FROM label_counts WHERE label = ?1 AND (?2 IS NULL OR status = ?2)"
    return int(db.execute(sql, (label, status)).get)


def _busy_among(db: apsw.Connection, label: bytes, status: str | None) -> int:
    """How many of those with a status do not have it now, because they are busy: never many."""
    if status is None:
        return 0
    sql = "SELECT count(*) FROM threads AS t INDEXED BY threads_status WHERE t.active > 0 AND t.status = ?"
    if label == EVERY:
        return int(db.execute(sql, (status,)).get)
    return int(db.execute(f"{sql} AND {_HAS_LABEL}", (status, label)).get)


def _choose(query: ThreadQuery, db: apsw.Connection, *, all_of_them: bool = False) -> tuple[Wanted, _Way | None]:
    """What to look up of the metadata, and where to start; None is along the order."""
    wanted = wanted_of(query.metadata)
    crowded = _counted(db, CROWDED) if wanted.labels else 0
    if crowded:
        wanted = Wanted(wanted.labels, exact=False)
    elif wanted.labels:  # what every thread has, as the one graph of a small project, tells nothing apart
        every = _counted(db, EVERY)
        wanted = Wanted([label for label in wanted.labels if _counted(db, label) < every], wanted.exact)
    if query.ids:
        return wanted, _by_ids(query)
    ways = [_by_label(db, label, crowded) for label in wanted.labels]
    if query.status is not None:
        ways.append(_by_status(db, query.status))
    fewest = min(ways, key=lambda way: way.size, default=None)
    if fewest is not None and (all_of_them or fewest.size < FEW):
        return wanted, fewest
    return wanted, next((way for way in ways if way.order == query.sort_by), None)


def _by_ids(query: ThreadQuery) -> _Way:
    term = f"t.thread IN ({', '.join('?' * len(query.ids))})"
    return _Way(_BY_ID, term, [key_of(thread_id) for thread_id in query.ids], len(query.ids))


def _by_label(db: apsw.Connection, label: bytes, crowded: int) -> _Way:
    source = "thread_labels AS d CROSS JOIN threads AS t ON t.thread = d.thread"
    size = _counted(db, label) + crowded
    if crowded:
        return _Way(source, "d.label IN (?, ?)", [label, CROWDED], size, label=label)
    return _Way(source, "d.label = ?", [label], size, order="created_at", label=label)


def _by_status(db: apsw.Connection, status: str) -> _Way:
    source, (term, bindings) = "threads AS t INDEXED BY threads_status", _has_status(status)
    if status == "busy":  # how many runs a thread has comes first in the index, so it is in no order
        sql = f"SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {term} LIMIT ?)"
        return _Way(source, term, bindings, int(db.execute(sql, (FEW,)).get), status=True)
    return _Way(source, term, bindings, _counted(db, EVERY, status), order="updated_at", status=True)


def _has_status(status: str) -> tuple[str, list[Any]]:
    return ("t.active > 0", []) if status == "busy" else ("t.active = 0 AND t.status = ?", [status])


def _terms(query: ThreadQuery, wanted: Wanted, way: _Way | None) -> tuple[str, list[Any]]:
    terms: list[str] = []
    bindings: list[Any] = []
    if way is not None:
        terms.append(way.term)
        bindings += way.bindings
    if query.status is not None and (way is None or not way.status):
        term, values = _has_status(query.status)
        terms.append(term)
        bindings += values
    if query.metadata and wanted.exact:
        for label in wanted.labels:
            if way is None or way.label != label:
                terms.append(_HAS_LABEL)
                bindings.append(label)
    elif query.metadata:
        terms.append("json_contains(t.metadata, ?)")
        bindings.append(apsw.pyobject(query.metadata))
    if query.values:
        terms.append(_HOLDS)
        bindings.append(apsw.pyobject(query.values))
    return ("WHERE " + " AND ".join(terms) if terms else ""), bindings
