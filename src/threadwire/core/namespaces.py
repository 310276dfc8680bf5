"""What is known of each namespace of a run, for as long as something may still happen in it.

Each call of a subgraph is a namespace of its own, named after the task that makes it, and a run may make any number of
them. So what is kept of one goes when its task ends (spec/log.md, 6.9).
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from threadwire.core.entries import Namespace

T = TypeVar("T")


class ByNamespace(Generic[T]):
    """One thing for each namespace, made when it is first asked for."""

    __slots__ = ("_here", "_inner", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._here: T | None = None
        self._inner: dict[str, ByNamespace[T]] = {}

    def at(self, ns: Namespace) -> T:
        branch = self
        for part in ns:
            if part not in branch._inner:
                branch._inner[part] = ByNamespace(self._make)
            branch = branch._inner[part]
        if branch._here is None:
            branch._here = self._make()
        return branch._here

    def task_ended(self, ns: Namespace, name: str, task_id: str) -> None:
        """Forget the namespaces of the subgraphs that a task of `ns` called, and all within them."""
        branch = self
        for part in ns:
            if part not in branch._inner:
                return
            branch = branch._inner[part]
        branch._inner.pop(f"{name}:{task_id}", None)

    def clear(self) -> None:
        self._here = None
        self._inner.clear()
