"""Function caches that are cleared whenever the server is quiet.

A cached result is small, but it keeps the whole block of memory that it was allocated in: see `server/memory.py`.
"""

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

T = TypeVar("T")

_caches: "list[_lru_cache_wrapper[Any]]" = []


def temporary_cache(maxsize: int) -> "Callable[[Callable[..., T]], _lru_cache_wrapper[T]]":
    """Like `lru_cache`, for a module-level function whose arguments differ from run to run."""

    def decorate(function: Callable[..., T]) -> "_lru_cache_wrapper[T]":
        cached = lru_cache(maxsize)(function)
        _caches.append(cached)
        return cached

    return decorate


def clear_temporary_caches() -> None:
    for cached in _caches:
        cached.cache_clear()
