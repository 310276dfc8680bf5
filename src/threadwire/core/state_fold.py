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
    """The values of one namespace, each stored as a `T`. A list is stored element by element."""

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
            self._keys[key] = [store(item) for item in value] if isinstance(value, list) else store(value)
        for key, (at, drop, items) in data.get("splice", {}).items():
            elements = self._keys[key]
            assert isinstance(elements, list), "a splice requires a list"
            # A new list, because readers may still hold the old one.
            self._keys[key] = [*elements[:at], *(store(item) for item in items), *elements[at + drop :]]
        if "keys" in data:
            self._order = data["keys"]


class JsonState(StateFold[bytes]):
    """A state as JSON fragments: rendering it after a small change joins them instead of serialising everything."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(dumps)

    def dumps(self) -> bytes:
        if self._whole is not None:
            return self._whole[0]
        parts = [dumps(key) + b":" + _joined(self._keys[key]) for key in self._order if key in self._keys]
        return b"{" + b",".join(parts) + b"}"

    def value(self) -> Json:
        return loads(self.dumps())


class ValueState(StateFold[Json]):
    """A state as its values. Keys are in the order in which they were set, not in that of the graph.

    A value that was returned never changes, but it may share parts with entries.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_unchanged)

    def value(self) -> Json:
        return self._whole[0] if self._whole is not None else dict(self._keys)


def _joined(fragment: bytes | list[bytes]) -> bytes:
    return fragment if isinstance(fragment, bytes) else b"[" + b",".join(fragment) + b"]"


def _unchanged(value: Json) -> Json:
    return value
