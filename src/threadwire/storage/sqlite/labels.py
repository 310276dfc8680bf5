"""Metadata as labels that an index can find. Pure: no database.

Every plain value in a thread's metadata gives it one label: the digest of the keys that lead to the value, and of the
value. Whoever looks for metadata looks for the labels of what he wants; then keys and values of any size and any
alphabet are 16 bytes, and nothing a client sends is ever part of a query.

What is contained (`threadwire.storage.abc.contains`) always has all the labels of the part. The other way round holds
unless the part has lists or empty objects, or more values than are looked up, or the whole has too many to be labelled.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

MAX_LABELS = 64
"""Of one thread. One with more has the label `CROWDED` and no other."""
MAX_WANTED = 8
"""Looked up for one query."""

CROWDED = b""
EVERY = b"\0"
"""What every thread is counted under, though it is no label of it."""


class Wanted(NamedTuple):
    labels: list[bytes]
    exact: bool
    """Whether whoever has these labels, and is not crowded, contains what is looked for."""


def labels_of(metadata: dict[str, Any]) -> set[bytes]:
    labels: set[bytes] = set()
    for path, value in _plain_values(metadata, ()):
        labels.add(_label(path, value))
        if len(labels) > MAX_LABELS:
            return {CROWDED}
    return labels


def wanted_of(part: dict[str, Any]) -> Wanted:
    labels: list[bytes] = []
    for path, value in _plain_values(part, ()):
        if len(labels) == MAX_WANTED:
            return Wanted(labels, exact=False)
        labels.append(_label(path, value))
    return Wanted(labels, exact=not part or _is_plain_all_through(part))


def _plain_values(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _plain_values(item, (*path, key))
    elif not isinstance(value, list):
        yield path, value


def _is_plain_all_through(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(map(_is_plain_all_through, value.values()))
    return not isinstance(value, list)


def _label(path: tuple[str, ...], value: Any) -> bytes:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1 and 1.0 are the same number
    # ASCII only, so that half a character, which has no UTF-8 form, is text like any other.
    return blake2b(json.dumps([path, value]).encode("ascii"), digest_size=16).digest()
