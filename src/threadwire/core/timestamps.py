"""Conversion between `datetime` and the stored timestamps, milliseconds since the epoch. The arithmetic is in integers,
because a float of seconds is not exact in distant years."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime.fromtimestamp(0, UTC)


def to_datetime(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def to_milliseconds(value: datetime) -> int:
    """Return a timestamp. A `datetime` without a time zone is treated as UTC. Microseconds are truncated, because
    rounding `datetime.max` up would exceed the calendar."""
    return ((value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
