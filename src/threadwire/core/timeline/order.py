"""The order of blocks: a linked list, so that inserting in the middle costs no more than at the end."""

from collections.abc import Iterator


class Order:
    """Ids in order. Every method takes constant time, except for iterating forwards and backwards."""

    __slots__ = ("_after", "_before", "first", "last")

    def __init__(self) -> None:
        self._after: dict[str, str | None] = {}
        self._before: dict[str, str | None] = {}
        self.first: str | None = None
        self.last: str | None = None

    def insert(self, block_id: str, after: str | None) -> None:
        """Insert after `after`, or before all others if that is None."""
        following = self.first if after is None else self._after[after]
        self._link(after, block_id)
        self._link(block_id, following)

    def remove(self, block_id: str) -> None:
        self._link(self._before.pop(block_id), self._after.pop(block_id))

    def before(self, block_id: str) -> str | None:
        return self._before[block_id]

    def forwards(self, start: str | None) -> Iterator[str]:
        """The ids from `start` on."""
        while start is not None:
            yield start
            start = self._after[start]

    def backwards(self, start: str | None) -> Iterator[str]:
        """The ids from `start` back to the first."""
        while start is not None:
            yield start
            start = self._before[start]

    def _link(self, left: str | None, right: str | None) -> None:
        if left is None:
            self.first = right
        else:
            self._after[left] = right
        if right is None:
            self.last = left
        else:
            self._before[right] = left
