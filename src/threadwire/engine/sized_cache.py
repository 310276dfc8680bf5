"""An LRU cache that is bounded in bytes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Cached(Generic[V]):
    value: V
    size: int = 0
    was_used: bool = True
    """Whether it has been used since the last `drop_unused`."""


class SizedCache(Generic[K, V]):
    """Drops the least recently used values until the others fit. The most recently used one stays, even if it is
    too large."""

    def __init__(self, max_bytes: Callable[[], int]) -> None:
        self._max_bytes = max_bytes
        self._cached: OrderedDict[K, _Cached[V]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._cached)

    def keys(self) -> list[K]:
        """The keys, from the least to the most recently used."""
        return list(self._cached)

    def get(self, key: K) -> V | None:
        if (cached := self._cached.get(key)) is None:
            return None
        self._cached.move_to_end(key)
        cached.was_used = True
        return cached.value

    def put(self, key: K, value: V, size: int) -> None:
        self.drop(key)
        self._cached[key] = _Cached(value)
        self.resize(key, value, size)

    def resize(self, key: K, value: object, size: int) -> None:
        """Record the size of a value that was just used, unless it was dropped in the meantime."""
        cached = self._cached.get(key)
        if cached is None or cached.value is not value:
            return
        self._cached.move_to_end(key)
        cached.was_used = True
        self._bytes += size - cached.size
        cached.size = size
        while self._bytes > self._max_bytes() and len(self._cached) > 1:
            self.drop_oldest()

    def drop(self, key: K) -> V | None:
        if (cached := self._cached.pop(key, None)) is None:
            return None
        self._bytes -= cached.size
        return cached.value

    def drop_unused(self, except_for: Callable[[V], bool]) -> None:
        """Drop the values that have not been used since the last call, unless `except_for` returns True for them."""
        for key, cached in list(self._cached.items()):
            if not cached.was_used and not except_for(cached.value):
                self.drop(key)
            cached.was_used = False

    def drop_oldest(self) -> None:
        self.drop(next(iter(self._cached)))
