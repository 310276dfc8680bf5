"""Cron schedules: what the five fields mean, and when the next moment is.

A schedule is read once and asked for the moment after another. It knows calendars and clocks on the wall; which clock
is the caller's business, who passes a time zone.

- `minute hour day month weekday`, and as a sixth field, last, `second`; without it the second is 0.
- In a field: `*`, `?` (the same, for days), numbers, names of months and days, `a-b`, `a,b`, `*/n`, `a-b/n`, `a/n`.
  A range may go round: `22-2`, `FRI-MON`. Sunday is 0 and 7.
- `L` as a day is the last of the month, `5#2` as a weekday the second Friday, `L5` the last one.
- A day and a weekday that are both given mean either of them, as cron has always had it.
- `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`.

When clocks are put forward or back:

- If the hour is `*` or `*/n`, the schedule follows time as it passes: every moment at which the clock shows what the
  fields say, in the hour that comes twice twice, in the hour that is left out never.
- Otherwise it follows the calendar: what falls into the hour that comes twice happens the first time; what falls into
  the hour that is left out happens once, at the moment the clock is put forward.
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
"""A schedule that does not come in so many years never does: 29 February may be eight years away."""

_MAX_LENGTH = 255
_SOON = timedelta(hours=3)
"""More than clocks are put back at once."""

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
    """Which days of a month: by date, by weekday, or by either."""

    dates: frozenset[int] | None
    last: bool
    weekdays: frozenset[int] | None
    nth: frozenset[tuple[int, int]]
    """Weekdays with a number: the second Friday is `(5, 2)`, the last one `(5, -1)`."""

    def of(self, year: int, month: int) -> list[int]:
        by_date, by_weekday = self.dates is not None, self.weekdays is not None
        length = calendar.monthrange(year, month)[1]
        days = range(1, length + 1)
        if not by_date and not by_weekday:
            return list(days)
        return [
            day
            for day in days
            if (by_date and self._dated(day, length))
            or (by_weekday and self._falls_on(day, length, (calendar.weekday(year, month, day) + 1) % 7))
        ]

    def _dated(self, day: int, length: int) -> bool:
        return day in (self.dates or ()) or (self.last and day == length)

    def _falls_on(self, day: int, length: int, weekday: int) -> bool:
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
    """Whether it follows time as it passes, and not the calendar."""

    def after(self, moment: int, zone: tzinfo = UTC) -> int | None:
        """The first moment of the schedule after `moment`, both in milliseconds since the epoch; None if there is none
        in sight."""
        begin = datetime.fromtimestamp(moment // 1000, zone)
        found = self._as_time_passes(begin) if self.every_hour else self._as_the_calendar_says(begin)
        return None if found is None else round(found.timestamp()) * 1000

    def _as_the_calendar_says(self, begin: datetime) -> datetime | None:
        # What is later on the calendar is never earlier in time, so the first that is later is the next.
        for shown in self._shown_after(begin.replace(tzinfo=None)):
            moment = _first_moment(shown, begin.tzinfo)
            if moment > begin.astimezone(UTC):
                return moment
        return None

    def _as_time_passes(self, begin: datetime) -> datetime | None:
        """Each time of the calendar may come twice. The second time is later than others' first, so what is found is
        only the next once the first time of what follows is later."""
        now, best = begin.astimezone(UTC), None
        for shown in self._shown_after(begin.replace(tzinfo=None) - _put_back_soon(begin)):
            moments = _moments(shown, begin.tzinfo)
            for moment in moments:
                if moment > now and (best is None or moment < best):
                    best = moment
            if best is not None and moments and moments[0] >= best:
                return best
        return best

    def _shown_after(self, shown: datetime) -> Iterator[datetime]:
        """What a clock on the wall, which is never put forward or back, shows at the times of the schedule."""
        for year in range(shown.year, min(shown.year + YEARS_AHEAD, 9999)):
            for month in sorted(self.months):
                if (year, month) < (shown.year, shown.month):
                    continue
                for day in self.days.of(year, month):
                    if (year, month, day) >= (shown.year, shown.month, shown.day):
                        yield from self._shown_on(datetime(year, month, day), shown)

    def _shown_on(self, day: datetime, after: datetime) -> Iterator[datetime]:
        for hour in self.hours:
            if day + timedelta(hours=hour + 1) <= after:
                continue
            for minute in self.minutes:
                for second in self.seconds:
                    shown = day.replace(hour=hour, minute=minute, second=second)
                    if shown > after:
                        yield shown


def parse_schedule(text: str) -> Schedule:
    """Raises `Invalid` with a reason that a person can act on."""
    try:
        schedule = _parse(text)
        if schedule.after(0) is None:
            raise Invalid("no such day ever comes")
    except Invalid as error:
        raise Invalid(f"Invalid cron schedule: '{text[:_MAX_LENGTH]}'. Reason: {error.message}") from None
    return schedule


def _parse(text: str) -> Schedule:
    if len(text) > _MAX_LENGTH:
        raise Invalid(f"it is longer than {_MAX_LENGTH} characters")
    given = text.strip().lower()
    if given.startswith("@") and given not in ALIASES:
        raise Invalid(f"{given} is not one of {', '.join(ALIASES)}")
    fields = ALIASES.get(given, given).split()
    if len(fields) not in (5, 6):
        raise Invalid(
            f"it has {len(fields)} fields; write minute, hour, day, month and weekday, and, if need be, second"
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
        raise Invalid(f"{field.name}: '{part}' has no step from 1 to {field.high}")
    begin, end = _span(field, span, open_ended=bool(slash))
    every = int(step) if slash else 1
    if begin <= end:
        yield from range(begin, end + 1, every)
    else:  # it goes round
        size = 7 if field is _WEEKDAY else field.high - field.low + 1
        for offset in range(0, end - begin + size + 1, every):
            yield (begin - field.low + offset) % size + field.low


def _span(field: _Field, span: str, *, open_ended: bool) -> tuple[int, int]:
    if span == "*" or (span == "?" and field in (_DAY, _WEEKDAY)):
        return field.low, 6 if field is _WEEKDAY else field.high
    begin, dash, end = span.partition("-")
    first = _number(field, begin)
    if dash:
        return first, _number(field, end)
    return first, field.high if open_ended else first


def _number(field: _Field, text: str) -> int:
    if text in field.names:
        return field.names[text]
    if not (text.isascii() and text.isdigit()) or not field.low <= int(text) <= field.high:
        raise Invalid(f"{field.name}: '{text}' is not a number from {field.low} to {field.high}")
    return int(text)


def _put_back_soon(begin: datetime) -> timedelta:
    """By how much clocks are about to be put back: what they show now, and so far before, they will show again."""
    now, soon = begin.utcoffset(), (begin.astimezone(UTC) + _SOON).astimezone(begin.tzinfo).utcoffset()
    assert now is not None
    assert soon is not None
    return max(now - soon, timedelta())


def _moments(shown: datetime, zone: tzinfo | None) -> list[datetime]:
    """When a clock of this zone shows that: once, twice, or never."""
    moments = [shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
    real = [moment for moment in moments if moment.astimezone(zone).replace(tzinfo=None) == shown]
    return real[:1] if len(real) == 2 and real[0] == real[1] else real


def _first_moment(shown: datetime, zone: tzinfo | None) -> datetime:
    """When a clock of this zone first shows that, or is put forward beyond it."""
    if real := _moments(shown, zone):
        return real[0]
    before, after = (shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if middle.astimezone(zone).replace(tzinfo=None) < shown:
            before = middle
        else:
            after = middle
    return after
