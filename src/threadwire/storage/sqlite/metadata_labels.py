"""Labels, which make metadata searchable by an index. Pure: no database.

Every plain value in a row's metadata, and every plain element of a list, gives the row one label: a digest of the value
and of the keys that lead to it. A metadata filter is translated into the labels to look up. So keys and values of any
size and any alphabet become 16 bytes, and nothing that a client sends becomes part of the SQL.

If metadata contains a filter (`threadwire.storage.abc.contains`), it has all the labels of the filter. The converse is
true too, unless the filter has lists of lists or objects, empty lists or objects, or more than `MAX_LOOKUPS` values, or
the metadata has more than `MAX_LABELS` values.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

MAX_LABELS = 64
"""Maximum number of labels per row. A row with more values has only the label `UNLABELLED`."""
MAX_LOOKUPS = 8
"""Maximum number of labels that are looked up for one filter."""

UNLABELLED = b""
ALL_THREADS = b"\0"
"""The key under which all threads are counted. Not a label of any thread."""

_ELEMENT = 0
"""Stands for the position in a list. Not text, so no key is equal to it."""
_Path = tuple[str | int, ...]


class LabelLookup(NamedTuple):
    labels: list[bytes]
    exact: bool
    """Whether all metadata with these labels matches the filter, unless its label is `UNLABELLED`."""


def labels_of(metadata: dict[str, Any]) -> set[bytes]:
    labels: set[bytes] = set()
    for path, value in _plain_values(metadata, ()):
        labels.add(_label(path, value))
        if len(labels) > MAX_LABELS:
            return {UNLABELLED}
    return labels


def label_lookup(part: dict[str, Any]) -> LabelLookup:
    labels: list[bytes] = []
    for path, value in _plain_values(part, ()):
        if len(labels) == MAX_LOOKUPS:
            return LabelLookup(labels, exact=False)
        labels.append(_label(path, value))
    return LabelLookup(labels, exact=not part or _has_only_plain_values(part))


def label_of_value(key: str, value: Any) -> bytes:
    """The label of metadata with this plain value under this key."""
    return _label((key,), value)


def label_of_element(key: str, element: Any) -> bytes:
    """The label of metadata with this plain element in the list under this key."""
    return _label((key, _ELEMENT), element)


def is_plain(value: Any) -> bool:
    return not isinstance(value, (dict, list))


def _plain_values(value: Any, path: _Path) -> Iterator[tuple[_Path, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _plain_values(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            if is_plain(item):
                yield (*path, _ELEMENT), item
    else:
        yield path, value


def _has_only_plain_values(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(map(_has_only_plain_values, value.values()))
    if isinstance(value, list):
        return bool(value) and all(map(is_plain, value))
    return True


def _label(path: _Path, value: Any) -> bytes:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1 and 1.0 are the same number
    # ASCII only, so that lone surrogates, which UTF-8 cannot encode, are text like any other.
    return blake2b(json.dumps([path, value]).encode("ascii"), digest_size=16).digest()
