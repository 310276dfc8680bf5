"""Data about each namespace of a run, for as long as the namespace is in use.

Each call of a subgraph has its own namespace, named after the calling task, and a run may make any number of calls. So
the data of a namespace is dropped when its task ends (spec/log.md, 6.9).
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from threadwire.core.entries import Namespace

T = TypeVar("T")


class ByNamespace(Generic[T]):
    """One value per namespace, created on first access."""

    __slots__ = ("_factory", "_here", "_inner")

    def __init__(self, factory: Callable[[], T]) -> None:
        self._factory = factory
        self._here: T | None = None
        self._inner: dict[str, ByNamespace[T]] = {}

    def at(self, ns: Namespace) -> T:
        branch = self
        for part in ns:
            if part not in branch._inner:
                branch._inner[part] = ByNamespace(self._factory)
            branch = branch._inner[part]
        if branch._here is None:
            branch._here = self._factory()
        return branch._here

    def task_ended(self, ns: Namespace, name: str, task_id: str) -> None:
        """Drop the namespaces of the subgraphs that a task of `ns` called, and everything below them."""
        branch = self
        for part in ns:
            if part not in branch._inner:
                return
            branch = branch._inner[part]
        branch._inner.pop(f"{name}:{task_id}", None)

    def clear(self) -> None:
        self._here = None
        self._inner.clear()


def is_below_task(inner: Namespace, ns: Namespace, task_id: str) -> bool:
    """Whether `inner` lies in a subgraph that this task of `ns` called (spec/log.md, 6.9)."""
    depth = len(ns)
    return len(inner) > depth and inner[:depth] == ns and inner[depth].partition(":")[2] == task_id
