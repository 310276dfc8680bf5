"""Moments of the calendar as the milliseconds since the epoch in which they are kept: in whole numbers, since a float
of seconds is not exact in far years."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime.fromtimestamp(0, UTC)


def moment_at(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def milliseconds_of(moment: datetime) -> int:
    """A moment without a zone is in UTC. The last microseconds of a millisecond are dropped: rounded up, the last of
    the calendar would lie beyond it."""
    return ((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
