"""Access filters and metadata filters as SQL terms on the `jsonb` copy of metadata (`json_columns`).

Keys and values are bound, never part of the SQL. A term starts with `@>`, which the index of the column supports.
"""

from typing import Any

from threadwire.core.access_filter import AccessFilter, AnyOf, Condition, Contains, Equals
from threadwire.storage.postgres.json_columns import searchable_value
from threadwire.storage.postgres.text_columns import escaped

RUN_SEARCH = """coalesce((SELECT search FROM threads WHERE thread = runs.thread),
       (SELECT search FROM discarded_threads WHERE thread = runs.thread))"""
"""The metadata that decides who may access a run: that of its thread, which may have been discarded."""


class Bindings(list[Any]):
    """The values of a statement's parameters, collected while its text is built."""

    def bind(self, value: Any) -> str:
        """Add a value and return its placeholder."""
        self.append(value)
        return f"${len(self)}"

    def page(self, limit: int, offset: int) -> str:
        """Return the clause for one page. PostgreSQL rejects negative numbers."""
        return f"LIMIT {self.bind(max(0, limit))} OFFSET {self.bind(max(0, offset))}"


def allows(search: str, access: AccessFilter, bindings: Bindings) -> str:
    """Return a term for a WHERE clause. `search` is an SQL expression for a `jsonb` copy. The term is empty if the
    filter does not restrict anything."""
    return " AND ".join(_condition(search, condition, bindings) for condition in access.conditions)


def and_allows(search: str, access: AccessFilter, bindings: Bindings) -> str:
    """`allows`, to be appended to a WHERE clause. A filter that restricts nothing leaves the statement unchanged."""
    term = allows(search, access, bindings)
    return f" AND {term}" if term else ""


def has(search: str, part: dict[str, Any], bindings: Bindings) -> str:
    """Return a term for rows whose metadata contains `part` (see `threadwire.storage.abc.contains`)."""
    return f"{search} @> {bindings.bind(searchable_value(part))}::jsonb"


def where(terms: list[str]) -> str:
    """Join the terms that are not empty."""
    joined = " AND ".join(term for term in terms if term)
    return f"WHERE {joined}" if joined else ""


def _condition(search: str, condition: Condition, bindings: Bindings) -> str:
    match condition:
        case Equals():
            return _equals(search, condition, bindings)
        case Contains():
            return _contains(search, condition, bindings)
        case AnyOf():
            terms = [allows(search, each, bindings) or "true" for each in condition.filters]
            return f"({' OR '.join(f'({term})' for term in terms) or 'false'})"


def _equals(search: str, condition: Equals, bindings: Bindings) -> str:
    term = has(search, {condition.key: condition.value}, bindings)
    if _is_plain(condition.value):
        return term
    key, value = bindings.bind(escaped(condition.key)), bindings.bind(searchable_value(condition.value))
    return f"({term} AND ({search} -> {key}::text) = {value}::jsonb)"


def _contains(search: str, condition: Contains, bindings: Bindings) -> str:
    plain = [element for element in condition.elements if _is_plain(element)]
    others = [element for element in condition.elements if not _is_plain(element)]
    terms = [has(search, {condition.key: plain}, bindings)]  # also checks that it is a list
    terms += [_has_element(search, condition.key, element, bindings) for element in others]
    return f"({' AND '.join(terms)})"


def _has_element(search: str, key: str, element: Any, bindings: Bindings) -> str:
    """The list has an equal element, not just one that contains it. PostgreSQL may evaluate this for rows without a
    list too, so it must not fail for any value."""
    elements = f"jsonb_path_query({search} -> {bindings.bind(escaped(key))}::text, '$[*]')"
    return f"EXISTS (SELECT FROM {elements} AS found WHERE found = {bindings.bind(searchable_value(element))}::jsonb)"


def _is_plain(value: Any) -> bool:
    return not isinstance(value, (dict, list))
