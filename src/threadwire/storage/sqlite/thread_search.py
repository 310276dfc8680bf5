"""Search threads: choose the index to scan, and build the query.

There are three access paths: scan the index of a label of the metadata or of the access filter, scan the index of the
status, or scan in the requested sort order until the page is full. The first two are chosen if they lead to few
threads, or if their index already has the requested order. In a scan by sort order, a filter that most threads match
costs little; a filter that few threads match is better served by its index. The counters of threads per label and
status tell the two apart. So the cost of a page does not grow with the number of threads, and neither does that of a
total for one label, one status, or both.

Queries use placeholders only: values from clients are bound, and their keys are compared (`metadata_labels`,
`contains`) but never become part of the SQL.
"""

from dataclasses import replace
from typing import Any, NamedTuple, get_args

import apsw

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.records import ThreadQuery, ThreadStatus
from threadwire.storage.sqlite.access_terms import access_lookup, alternative_labels
from threadwire.storage.sqlite.id_keys import Key, key_of
from threadwire.storage.sqlite.metadata_labels import ALL_THREADS, UNLABELLED, LabelLookup, label_lookup
from threadwire.storage.sqlite.rows import fetch

MAX_SORTED = 2000
"""An access path with fewer threads than this is read and sorted completely."""

_STATUSES: tuple[ThreadStatus, ...] = get_args(ThreadStatus)
_BY_ID = "threads AS t INDEXED BY sqlite_autoindex_threads_1"
_SCANS = {
    "thread_id": (_BY_ID, ("t.thread",)),
    "created_at": ("threads AS t INDEXED BY threads_created", ("t.created_at", "t.thread")),
    "updated_at": ("threads AS t INDEXED BY threads_updated", ("t.updated_at", "t.thread")),
    "state_updated_at": ("threads AS t INDEXED BY threads_state_updated", ("t.state_updated_at", "t.thread")),
}
_HAS_LABEL = """EXISTS (SELECT 1 FROM thread_labels AS l
                 WHERE l.label = ? AND l.created_at = t.created_at AND l.thread = t.thread)"""
_HAS_VALUES = "json_contains((SELECT s.vals FROM thread_state AS s WHERE s.thread = t.thread), ?)"


class _Lookups(NamedTuple):
    """The labels of the query's metadata and those of the access filter."""

    metadata: LabelLookup
    access: LabelLookup

    @property
    def labels(self) -> list[bytes]:
        return list(dict.fromkeys([*self.metadata.labels, *self.access.labels]))

    @property
    def exact(self) -> bool:
        return self.metadata.exact and self.access.exact


class _AccessPath(NamedTuple):
    """A table to scan, and the condition that selects its rows, with the values to bind."""

    source: str
    term: str
    bindings: list[Any]
    size: int
    """Upper bound for the number of threads on this path."""
    order: str | None = None
    """The sort order in which the scan returns the threads, if any."""
    label: bytes | None = None
    status: bool = False


def page(query: ThreadQuery, db: apsw.Connection, access: AccessFilter = EVERYTHING) -> list[Key]:
    """Return the keys of the threads of one page, in order."""
    if query.sort_by == "status":
        return _status_by_status(query, db, access)
    lookups, path = _choose(query, db, access)
    terms, bindings = _terms(query, access, lookups, path)
    source, columns = _SCANS[query.sort_by]
    if path is not None:
        source = path.source
        if path.label is not None and query.sort_by == "created_at":
            columns = ("d.created_at", "d.thread")
    direction = "DESC" if query.descending else "ASC"
    order = ", ".join(f"{column} {direction}" for column in columns)
    sql = f"SELECT t.thread FROM {source} {terms} ORDER BY {order} LIMIT ? OFFSET ?"
    return [thread for (thread,) in fetch(db, sql, [*bindings, query.limit, query.offset])]


def _status_by_status(query: ThreadQuery, db: apsw.Connection, access: AccessFilter) -> list[Key]:
    """Sort by status: read one status after the other, each sorted by `updated_at`."""
    found: list[Key] = []
    offset = query.offset
    for status in sorted(_STATUSES, reverse=query.descending):
        if query.status not in (None, status) or len(found) == query.limit:
            continue
        of_status = replace(query, status=status, sort_by="updated_at", limit=query.limit - len(found), offset=offset)
        if keys := page(of_status, db, access):
            found += keys
            offset = 0
        elif offset:
            offset -= count(of_status, db, access)
    return found


def count(query: ThreadQuery, db: apsw.Connection, access: AccessFilter = EVERYTHING) -> int:
    lookups, path = _choose(query, db, access, total=True)
    labels = lookups.labels
    if lookups.exact and len(labels) <= 1 and not (query.ids or query.values or query.status == "busy"):
        label = labels[0] if labels else ALL_THREADS
        return _counted(db, label, query.status) - _busy_among(db, label, query.status)
    terms, bindings = _terms(query, access, lookups, path)
    source = "threads AS t" if path is None else path.source
    return int(db.execute(f"SELECT count(*) FROM {source} {terms}", bindings).get)


def _counted(db: apsw.Connection, label: bytes, status: str | None = None) -> int:
    """Number of threads with this label, and this status if given. A busy thread counts with its previous status."""
    sql = "SELECT ifnull(sum(n), 0) FROM label_counts WHERE label = ?1 AND (?2 IS NULL OR status = ?2)"
    return int(db.execute(sql, (label, status)).get)


def _busy_among(db: apsw.Connection, label: bytes, status: str | None) -> int:
    """Number of threads that are counted with this status although they are busy. Never many."""
    if status is None:
        return 0
    sql = "SELECT count(*) FROM threads AS t INDEXED BY threads_status WHERE t.active > 0 AND t.status = ?"
    if label == ALL_THREADS:
        return int(db.execute(sql, (status,)).get)
    return int(db.execute(f"{sql} AND {_HAS_LABEL}", (status, label)).get)


def _choose(
    query: ThreadQuery, db: apsw.Connection, access: AccessFilter, *, total: bool = False
) -> tuple[_Lookups, _AccessPath | None]:
    """Choose the labels to look up and the access path. None is a scan in sort order."""
    lookups = _Lookups(label_lookup(query.metadata), access_lookup(access))
    alternatives = alternative_labels(access)
    unlabelled = _counted(db, UNLABELLED) if lookups.labels or alternatives else 0
    if unlabelled:
        lookups = _Lookups(_inexact(lookups.metadata), _inexact(lookups.access))
    elif lookups.labels:
        every = _counted(db, ALL_THREADS)
        filtering = {label for label in lookups.labels if _counted(db, label) < every}
        lookups = _Lookups(_only(lookups.metadata, filtering), _only(lookups.access, filtering))
    if query.ids:
        return lookups, _by_ids(query)
    paths = [_by_label(db, label, unlabelled) for label in lookups.labels]
    paths += [_by_alternatives(db, labels, unlabelled) for labels in alternatives]
    if query.status is not None:
        paths.append(_by_status(db, query.status))
    fewest = min(paths, key=lambda path: path.size, default=None)
    if fewest is not None and (total or fewest.size < MAX_SORTED):
        return lookups, fewest
    return lookups, next((path for path in paths if path.order == query.sort_by), None)


def _inexact(lookup: LabelLookup) -> LabelLookup:
    return LabelLookup(lookup.labels, lookup.exact and not lookup.labels)


def _only(lookup: LabelLookup, filtering: set[bytes]) -> LabelLookup:
    """A label that all threads have, such as a project's only graph, does not filter."""
    return LabelLookup([label for label in lookup.labels if label in filtering], lookup.exact)


def _by_ids(query: ThreadQuery) -> _AccessPath:
    term = f"t.thread IN ({', '.join('?' * len(query.ids))})"
    return _AccessPath(_BY_ID, term, [key_of(thread_id) for thread_id in query.ids], len(query.ids))


def _by_label(db: apsw.Connection, label: bytes, unlabelled: int) -> _AccessPath:
    source = "thread_labels AS d CROSS JOIN threads AS t ON t.thread = d.thread"
    size = _counted(db, label) + unlabelled
    if unlabelled:
        return _AccessPath(source, "d.label IN (?, ?)", [label, UNLABELLED], size, label=label)
    return _AccessPath(source, "d.label = ?", [label], size, order="created_at", label=label)


def _by_alternatives(db: apsw.Connection, labels: list[bytes], unlabelled: int) -> _AccessPath:
    marks = ", ".join("?" * (len(labels) + 1))
    term = f"t.thread IN (SELECT l.thread FROM thread_labels AS l WHERE l.label IN ({marks}))"
    size = sum(_counted(db, label) for label in labels) + unlabelled
    return _AccessPath(_BY_ID, term, [*labels, UNLABELLED], size)


def _by_status(db: apsw.Connection, status: str) -> _AccessPath:
    source, (term, bindings) = "threads AS t INDEXED BY threads_status", _has_status(status)
    if status == "busy":  # the index starts with the number of active runs, so the scan has no usable order
        sql = f"SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {term} LIMIT ?)"
        return _AccessPath(source, term, bindings, int(db.execute(sql, (MAX_SORTED,)).get), status=True)
    return _AccessPath(source, term, bindings, _counted(db, ALL_THREADS, status), order="updated_at", status=True)


def _has_status(status: str) -> tuple[str, list[Any]]:
    return ("t.active > 0", []) if status == "busy" else ("t.active = 0 AND t.status = ?", [status])


def _terms(
    query: ThreadQuery, access: AccessFilter, lookups: _Lookups, path: _AccessPath | None
) -> tuple[str, list[Any]]:
    terms: list[str] = []
    bindings: list[Any] = []
    if path is not None:
        terms.append(path.term)
        bindings += path.bindings
    if query.status is not None and (path is None or not path.status):
        term, values = _has_status(query.status)
        terms.append(term)
        bindings += values
    exact = [lookup for lookup in lookups if lookup.exact]
    for label in dict.fromkeys(label for lookup in exact for label in lookup.labels):
        if path is None or path.label != label:
            terms.append(_HAS_LABEL)
            bindings.append(label)
    if not lookups.metadata.exact:
        terms.append("json_contains(t.metadata, ?)")
        bindings.append(apsw.pyobject(query.metadata))
    if not lookups.access.exact:
        terms.append("access_allows(t.metadata, ?)")
        bindings.append(apsw.pyobject(access))
    if query.values:
        terms.append(_HAS_VALUES)
        bindings.append(apsw.pyobject(query.values))
    return ("WHERE " + " AND ".join(terms) if terms else ""), bindings
