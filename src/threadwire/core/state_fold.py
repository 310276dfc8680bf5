"""The state of a thread, folded from `state` entries (spec/log.md, 6.5 - 6.8).

There is one fold. Its subclasses differ in how they store a value: `JsonState` for readers that send the whole state
after every change, `ValueState` for readers that inspect it.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import Any, Generic, NamedTuple, TypeVar

from threadwire.core.entries import Json
from threadwire.core.json import dumps, loads

T = TypeVar("T")


class StateFold(ABC, Generic[T]):
    """The values of one namespace, each stored as a `T`."""

    __slots__ = ("_keys", "_order", "_whole")

    def __init__(self) -> None:
        self._keys: dict[str, T] = {}
        self._order: list[str] = []
        self._whole: tuple[Json] | None = None
        """The state, if it is not an object."""

    def apply(self, data: dict[str, Any]) -> None:
        if data.get("full"):
            self._keys.clear()
            self._order = []
            self._whole = (data["value"],) if "value" in data else None
        for key in data.get("unset", ()):
            self._keys.pop(key, None)
        for key, value in data.get("set", {}).items():
            self._keys[key] = self._stored(value)
        for key, (at, drop, items) in data.get("splice", {}).items():
            self._keys[key] = self._spliced(self._keys[key], at, drop, items)
        if "keys" in data:
            self._order = data["keys"]

    @abstractmethod
    def _stored(self, value: Json) -> T: ...

    @abstractmethod
    def _spliced(self, stored: T, at: int, drop: int, items: list[Json]) -> T: ...


def spliced(elements: list[T], at: int, drop: int, items: list[T]) -> list[T]:
    """Replace `drop` elements at `at`. Returns a new list, because readers may still hold the old one."""
    return [*elements[:at], *items, *elements[at + drop :]]


class JsonList(NamedTuple):
    """A list as JSON, in pieces of one or more elements. A splice serializes the elements that it adds, as one piece,
    and those of the pieces that it cuts."""

    pieces: list[bytes]
    """Without the brackets."""
    ends: list[int]
    """For each piece, the number of elements up to its end."""

    @classmethod
    def of(cls, count: int, json: bytes) -> "JsonList":
        return cls([json[1:-1]], [count]) if count else cls([], [])

    def spliced(self, at: int, drop: int, items: "JsonList") -> "JsonList":
        before, rest = self._split(at)
        _, after = rest._split(drop)
        return before._followed_by(items)._followed_by(after)

    def _split(self, at: int) -> tuple["JsonList", "JsonList"]:
        index = bisect_right(self.ends, at)
        start = self.ends[index - 1] if index else 0
        before = JsonList(self.pieces[:index], self.ends[:index])
        after = JsonList(self.pieces[index:], [end - at for end in self.ends[index:]])
        if start == at:
            return before, after
        elements = loads(b"[%b]" % self.pieces[index])
        kept, moved = elements[: at - start], elements[at - start :]
        after.pieces[0] = dumps(moved)[1:-1]
        return before._followed_by(JsonList.of(len(kept), dumps(kept))), after

    def _followed_by(self, other: "JsonList") -> "JsonList":
        count = self.ends[-1] if self.ends else 0
        return JsonList(self.pieces + other.pieces, self.ends + [count + end for end in other.ends])

    def dumps(self) -> tuple[bytes, ...]:
        return b"[", b",".join(self.pieces), b"]"


class JsonState(StateFold[bytes | JsonList]):
    """A state as JSON fragments: rendering it after a small change joins them instead of serializing everything."""

    __slots__ = ()

    def _dumps(self, value: Json) -> bytes:
        return dumps(value)

    def _stored(self, value: Json) -> bytes | JsonList:
        json = self._dumps(value)
        return JsonList.of(len(value), json) if isinstance(value, list) else json

    def _spliced(self, stored: bytes | JsonList, at: int, drop: int, items: list[Json]) -> JsonList:
        assert isinstance(stored, JsonList), "a splice requires a list"
        return stored.spliced(at, drop, JsonList.of(len(items), self._dumps(items)))

    def dumps(self) -> bytes:
        if self._whole is not None:
            return dumps(self._whole[0])
        pieces = [b"{"]
        for key in self._order:
            if (stored := self._keys.get(key)) is not None:
                fragments = stored.dumps() if isinstance(stored, JsonList) else (stored,)
                pieces += (b"," if len(pieces) > 1 else b"", dumps(key), b":", *fragments)
        pieces.append(b"}")
        return b"".join(pieces)  # once, because a state may be large

    def value(self) -> Json:
        return loads(self.dumps())


class ValueState(StateFold[Json]):
    """A state as its values. Keys are in the order in which they were set, not in the order of the graph's channels.

    A value that was returned never changes, but it may share parts with entries.
    """

    __slots__ = ()

    def _stored(self, value: Json) -> Json:
        return list(value) if isinstance(value, list) else value

    def _spliced(self, stored: Json, at: int, drop: int, items: list[Json]) -> Json:
        assert isinstance(stored, list), "a splice requires a list"
        return spliced(stored, at, drop, items)

    def value(self) -> Json:
        return self._whole[0] if self._whole is not None else dict(self._keys)
