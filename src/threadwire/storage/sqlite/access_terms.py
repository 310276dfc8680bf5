"""Access filters as SQL terms, and the labels that narrow down the rows to check (`metadata_labels`).

A filter is bound as a Python object and evaluated by the function `access_allows`, or by labels if they are exact. So
neither its keys nor its values become part of the SQL.
"""

from typing import Any

import apsw

from threadwire.core.access_filter import AccessFilter, AnyOf, Condition, Contains
from threadwire.storage.sqlite.metadata_labels import (
    MAX_LOOKUPS,
    UNLABELLED,
    LabelLookup,
    is_plain,
    label_of_element,
    label_of_value,
)

RUN_METADATA = """coalesce((SELECT metadata FROM threads WHERE thread = runs.thread),
       (SELECT metadata FROM discarded_threads WHERE thread = runs.thread))"""
"""The metadata that decides who may access a run: that of its thread, which may have been discarded."""


def allows(metadata: str, access: AccessFilter) -> tuple[str, list[Any]]:
    """Return a term for a WHERE clause, and its bindings. `metadata` is an SQL expression. The term is empty if the
    filter does not restrict anything."""
    return (f"access_allows({metadata}, ?)", [apsw.pyobject(access)]) if access else ("", [])


def and_allows(metadata: str, access: AccessFilter) -> tuple[str, list[Any]]:
    """`allows`, to be appended to a WHERE clause. A filter that restricts nothing leaves the statement unchanged."""
    term, bindings = allows(metadata, access)
    return (f" AND {term}" if term else ""), bindings


def access_lookup(access: AccessFilter) -> LabelLookup:
    """The labels of every row that matches the filter."""
    lookups = [_lookup(condition) for condition in access.conditions]
    labels = [label for lookup in lookups for label in lookup.labels]
    return LabelLookup(labels[:MAX_LOOKUPS], len(labels) <= MAX_LOOKUPS and all(lookup.exact for lookup in lookups))


def alternative_labels(access: AccessFilter) -> list[list[bytes]]:
    """For each `$or` of the filter: labels of which every matching row has at least one. An `$or` with an alternative
    that has no labels is left out."""
    found = []
    for condition in access.conditions:
        if isinstance(condition, AnyOf):
            labels = [access_lookup(each).labels for each in condition.filters]
            if all(labels) and len(labels) <= MAX_LOOKUPS:
                found.append([first for first, *_ in labels])
    return found


def labelled(table: str, key: str, access: AccessFilter) -> tuple[str, list[Any]]:
    """Return a term that restricts a search to rows with a label of the filter, by the index `table`. It only narrows
    the search down: `allows` decides."""
    lookups = [*([label] for label in access_lookup(access).labels), *alternative_labels(access)]
    if not lookups:
        return "", []
    labels = lookups[0]
    marks = ", ".join("?" * (len(labels) + 1))
    return f"{key} IN (SELECT {key} FROM {table} WHERE label IN ({marks}))", [*labels, UNLABELLED]


def _lookup(condition: Condition) -> LabelLookup:
    if isinstance(condition, AnyOf):
        return LabelLookup([], exact=False)
    if isinstance(condition, Contains):
        plain = [each for each in condition.elements if is_plain(each)]
        labels = [label_of_element(condition.key, each) for each in plain]
        return LabelLookup(labels, exact=bool(plain) and len(plain) == len(condition.elements))
    if is_plain(condition.value):
        return LabelLookup([label_of_value(condition.key, condition.value)], exact=True)
    return LabelLookup([], exact=False)
