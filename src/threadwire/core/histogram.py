"""How durations are distributed, for metrics."""

from bisect import bisect_left
from collections.abc import Sequence

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of the buckets. They range from a fast commit to a run that waits for a failover."""


class Histogram:
    """Counts durations by size. `observe` is always called by the same thread; any thread may read."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = tuple(bounds)
        self._counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        """The sum of all durations."""

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """For each bound, the number of durations up to it."""
        counted, rows = 0, []
        for bound, count in zip(self.bounds, self._counts, strict=False):
            counted += count
            rows.append((bound, counted))
        return rows
