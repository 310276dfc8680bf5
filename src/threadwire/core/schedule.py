"""Cron schedules: the syntax, and the next time that matches.

`parse_schedule` parses a schedule once; `Schedule.after` then returns the next matching time in a given time zone.

- `minute hour day month weekday`, optionally followed by `second`, which defaults to 0.
- A field is `*`, `?` (same as `*`, for days), numbers, names of months and days, `a-b`, `a,b`, `*/n`, `a-b/n`, `a/n`.
  A range may wrap around: `22-2`, `FRI-MON`. Sunday is 0 and 7.
- As a day, `L` is the last day of the month. As a weekday, `5#2` is the second Friday and `L5` the last one.
- If both a day and a weekday are given, a date that matches either of them matches, as in cron.
- `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`.

When daylight saving time starts or ends:

- If the hour is `*` or `*/n`, the schedule follows elapsed time: it fires whenever the wall clock matches the fields,
  twice in the repeated hour and never in the skipped one.
- Otherwise it follows the calendar: a time in the repeated hour fires on its first occurrence only; times in the
  skipped hour fire once, when the clock moves forward.
"""

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from threadwire.errors import Invalid

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
YEARS_AHEAD = 9
"""A schedule that does not match within this many years never does: 29 February may be eight years away."""

_MAX_LENGTH = 255
_SOON = timedelta(hours=3)
"""Longer than any backward change of a clock."""

_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: dict[str, int]


_MINUTE = _Field("minute", 0, 59, {})
_HOUR = _Field("hour", 0, 23, {})
_DAY = _Field("day", 1, 31, {})
_MONTH = _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("weekday", 0, 7, _DAYS)
_SECOND = _Field("second", 0, 59, {})


@dataclass(frozen=True, slots=True)
class _Days:
    """The days of a month that match: by date, by weekday, or by either."""

    dates: frozenset[int] | None
    last: bool
    weekdays: frozenset[int] | None
    nth: frozenset[tuple[int, int]]
    """Numbered weekdays: the second Friday is `(5, 2)`, the last one `(5, -1)`."""

    def of(self, year: int, month: int) -> list[int]:
        by_date, by_weekday = self.dates is not None, self.weekdays is not None
        length = calendar.monthrange(year, month)[1]
        days = range(1, length + 1)
        if not by_date and not by_weekday:
            return list(days)
        return [
            day
            for day in days
            if (by_date and self._matches_date(day, length))
            or (by_weekday and self._matches_weekday(day, length, (calendar.weekday(year, month, day) + 1) % 7))
        ]

    def _matches_date(self, day: int, length: int) -> bool:
        return day in (self.dates or ()) or (self.last and day == length)

    def _matches_weekday(self, day: int, length: int, weekday: int) -> bool:
        which = (day - 1) // 7 + 1
        return (
            weekday in (self.weekdays or ())
            or (weekday, which) in self.nth
            or (day + 7 > length and (weekday, -1) in self.nth)
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: _Days
    months: frozenset[int]
    every_hour: bool
    """Whether the schedule follows elapsed time instead of the calendar."""

    def after(self, timestamp: int, zone: tzinfo = UTC) -> int | None:
        """Return the first match after `timestamp`, both in milliseconds since the epoch, or None if there is no match
        within `YEARS_AHEAD` years."""
        start = datetime.fromtimestamp(timestamp // 1000, zone)
        found = self._next_by_elapsed_time(start) if self.every_hour else self._next_by_calendar(start)
        return None if found is None else round(found.timestamp()) * 1000

    def _next_by_calendar(self, start: datetime) -> datetime | None:
        # Instants are in the order of their calendar times, so the first match after `start` is the next.
        for local in self._local_times_after(start.replace(tzinfo=None)):
            instant = _first_instant(local, start.tzinfo)
            if instant > start.astimezone(UTC):
                return instant
        return None

    def _next_by_elapsed_time(self, start: datetime) -> datetime | None:
        """A local time may occur twice, and its second occurrence may come after the first occurrence of a later local
        time. So a candidate is final only once the first occurrence of the next local time is not earlier."""
        now, best = start.astimezone(UTC), None
        for local in self._local_times_after(start.replace(tzinfo=None) - _upcoming_setback(start)):
            instants = _instants(local, start.tzinfo)
            for instant in instants:
                if instant > now and (best is None or instant < best):
                    best = instant
            if best is not None and instants and instants[0] >= best:
                return best
        return best

    def _local_times_after(self, after: datetime) -> Iterator[datetime]:
        """The matching times in order, as naive local times that ignore daylight saving time."""
        for year in range(after.year, min(after.year + YEARS_AHEAD, 9999)):
            for month in sorted(self.months):
                if (year, month) < (after.year, after.month):
                    continue
                for day in self.days.of(year, month):
                    if (year, month, day) >= (after.year, after.month, after.day):
                        yield from self._local_times_on(datetime(year, month, day), after)

    def _local_times_on(self, day: datetime, after: datetime) -> Iterator[datetime]:
        for hour in self.hours:
            if day + timedelta(hours=hour + 1) <= after:
                continue
            for minute in self.minutes:
                for second in self.seconds:
                    local = day.replace(hour=hour, minute=minute, second=second)
                    if local > after:
                        yield local


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule. Raise `Invalid` with the reason if `text` is not a schedule, or never matches."""
    try:
        schedule = _parse(text)
        if schedule.after(0) is None:
            raise Invalid("no date ever matches it")
    except Invalid as error:
        raise Invalid(f"Invalid cron schedule: '{text[:_MAX_LENGTH]}'. Reason: {error.message}") from None
    return schedule


def _parse(text: str) -> Schedule:
    if len(text) > _MAX_LENGTH:
        raise Invalid(f"it is longer than {_MAX_LENGTH} characters")
    lowered = text.strip().lower()
    if lowered.startswith("@") and lowered not in ALIASES:
        raise Invalid(f"{lowered} is not one of {', '.join(ALIASES)}")
    fields = ALIASES.get(lowered, lowered).split()
    if len(fields) not in (5, 6):
        raise Invalid(
            f"expected 5 or 6 fields (minute, hour, day, month, weekday and optionally second), got {len(fields)}"
        )
    minute, hour, day, month, weekday = fields[:5]
    return Schedule(
        seconds=tuple(sorted(_numbers(_SECOND, fields[5] if len(fields) == 6 else "0"))),
        minutes=tuple(sorted(_numbers(_MINUTE, minute))),
        hours=tuple(sorted(_numbers(_HOUR, hour))),
        days=_days(day, weekday),
        months=_numbers(_MONTH, month),
        every_hour=hour.startswith("*"),
    )


def _days(day: str, weekday: str) -> _Days:
    dates = [part for part in day.split(",") if part != "l"]
    nth = {part: pair for part in weekday.split(",") if (pair := _nth(part)) is not None}
    plain = [part for part in weekday.split(",") if part not in nth]
    return _Days(
        dates=None if day in ("*", "?") else _numbers(_DAY, ",".join(dates)) if dates else frozenset(),
        last="l" in day.split(","),
        weekdays=None if weekday in ("*", "?") else _weekdays(plain),
        nth=frozenset(nth.values()),
    )


def _weekdays(parts: list[str]) -> frozenset[int]:
    return frozenset(number % 7 for number in _numbers(_WEEKDAY, ",".join(parts))) if parts else frozenset()


def _nth(part: str) -> tuple[int, int] | None:
    if found := re.fullmatch(r"(\w+)#([1-5])", part):
        return _number(_WEEKDAY, found[1]) % 7, int(found[2])
    if found := re.fullmatch(r"l(\d)", part):
        return _number(_WEEKDAY, found[1]) % 7, -1
    return None


def _numbers(field: _Field, text: str) -> frozenset[int]:
    return frozenset(number for part in text.split(",") for number in _part(field, part))


def _part(field: _Field, part: str) -> Iterator[int]:
    span, slash, step = part.partition("/")
    if slash and not (step.isascii() and step.isdigit() and 0 < int(step) <= field.high):
        raise Invalid(f"{field.name}: the step of '{part}' must be a number from 1 to {field.high}")
    start, end = _span(field, span, open_ended=bool(slash))
    every = int(step) if slash else 1
    if start <= end:
        yield from range(start, end + 1, every)
    else:  # the range wraps around
        size = 7 if field is _WEEKDAY else field.high - field.low + 1
        for offset in range(0, end - start + size + 1, every):
            yield (start - field.low + offset) % size + field.low


def _span(field: _Field, span: str, *, open_ended: bool) -> tuple[int, int]:
    if span == "*" or (span == "?" and field in (_DAY, _WEEKDAY)):
        return field.low, 6 if field is _WEEKDAY else field.high
    start, dash, end = span.partition("-")
    first = _number(field, start)
    if dash:
        return first, _number(field, end)
    return first, field.high if open_ended else first


def _number(field: _Field, text: str) -> int:
    if text in field.names:
        return field.names[text]
    if not (text.isascii() and text.isdigit()) or not field.low <= int(text) <= field.high:
        raise Invalid(f"{field.name}: '{text}' is not a number from {field.low} to {field.high}")
    return int(text)


def _upcoming_setback(start: datetime) -> timedelta:
    """Return by how much the clock is about to be moved back. Local times up to this long before `start` will recur."""
    now, soon = start.utcoffset(), (start.astimezone(UTC) + _SOON).astimezone(start.tzinfo).utcoffset()
    assert now is not None
    assert soon is not None
    return max(now - soon, timedelta())


def _instants(local: datetime, zone: tzinfo | None) -> list[datetime]:
    """Return when this local time occurs in the zone: once, twice, or never."""
    candidates = [local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
    real = [instant for instant in candidates if instant.astimezone(zone).replace(tzinfo=None) == local]
    return real[:1] if len(real) == 2 and real[0] == real[1] else real


def _first_instant(local: datetime, zone: tzinfo | None) -> datetime:
    """Return when this local time first occurs in the zone, or when the clock is moved forward past it."""
    if real := _instants(local, zone):
        return real[0]
    before, after = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if middle.astimezone(zone).replace(tzinfo=None) < local:
            before = middle
        else:
            after = middle
    return after
