"""The state of a thread, folded from `state` entries (spec/log.md, 6.5 - 6.8).

There is one fold. Its subclasses differ in how they store a value: `JsonState` for readers that send the whole state
after every change, `ValueState` for readers that inspect it.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from threadwire.core.entries import Json
from threadwire.core.json import dumps, loads

T = TypeVar("T")


class StateFold(Generic[T]):
    """The values of one namespace, each stored as a `T`. A list may be stored element by element."""

    __slots__ = ("_keys", "_order", "_store", "_whole")

    def __init__(self, store: Callable[[Json], T]) -> None:
        self._store = store
        self._keys: dict[str, T | list[T]] = {}
        self._order: list[str] = []
        self._whole: tuple[T] | None = None

    def apply(self, data: dict[str, Any]) -> None:
        store = self._store
        if data.get("full"):
            self._keys.clear()
            self._order = []
            self._whole = (store(data["value"]),) if "value" in data else None
        for key in data.get("unset", ()):
            self._keys.pop(key, None)
        for key, value in data.get("set", {}).items():
            self._keys[key] = self._stored(value)
        for key, (at, drop, items) in data.get("splice", {}).items():
            elements = self._elements(self._keys[key])
            self._keys[key] = spliced(elements, at, drop, [store(item) for item in items])
        if "keys" in data:
            self._order = data["keys"]

    def _stored(self, value: Json) -> T | list[T]:
        return [self._store(item) for item in value] if isinstance(value, list) else self._store(value)

    def _elements(self, stored: T | list[T]) -> list[T]:
        assert isinstance(stored, list), "a splice requires a list"
        return stored


def spliced(elements: list[T], at: int, drop: int, items: list[T]) -> list[T]:
    """Replace `drop` elements at `at`. Returns a new list, because readers may still hold the old one."""
    return [*elements[:at], *items, *elements[at + drop :]]


class JsonState(StateFold[bytes]):
    """A state as JSON fragments: rendering it after a small change joins them instead of serializing everything.

    A list has one fragment until it is spliced, and then one per element. Serializing ten thousand elements one by one
    takes several times as long as serializing their list, and most large lists never change.
    """

    __slots__ = ()

    def __init__(self, store: Callable[[Json], bytes] = dumps) -> None:
        super().__init__(store)

    def _stored(self, value: Json) -> bytes:
        return dumps(value)

    def _elements(self, stored: bytes | list[bytes]) -> list[bytes]:
        if isinstance(stored, list):
            return stored
        assert stored.startswith(b"["), "a splice requires a list"
        return [dumps(item) for item in loads(stored)]

    def dumps(self) -> bytes:
        if self._whole is not None:
            return self._whole[0]
        pieces = [b"{"]
        for key in self._order:
            if (stored := self._keys.get(key)) is not None:
                pieces += (b"," if len(pieces) > 1 else b"", dumps(key), b":", *_fragments(stored))
        pieces.append(b"}")
        return b"".join(pieces)  # once, because a state may be large

    def value(self) -> Json:
        return loads(self.dumps())


class ValueState(StateFold[Json]):
    """A state as its values. Keys are in the order in which they were set, not in the order of the graph's channels.

    A value that was returned never changes, but it may share parts with entries.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_unchanged)

    def value(self) -> Json:
        return self._whole[0] if self._whole is not None else dict(self._keys)


def _fragments(stored: bytes | list[bytes]) -> tuple[bytes, ...]:
    return (stored,) if isinstance(stored, bytes) else (b"[", b",".join(stored), b"]")


def _unchanged(value: Json) -> Json:
    return value
