from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadwire.core.schedule import ALIASES, parse_schedule
from threadwire.errors import Invalid

NEW_YORK, BERLIN, LORD_HOWE = map(ZoneInfo, ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe"))


def matches(text: str, after: str, count: int, zone: ZoneInfo | None = None) -> list[str]:
    """Return the next matches in local time."""
    schedule, shown = parse_schedule(text), []
    clock = zone or UTC
    start = datetime.fromisoformat(after)
    at = round((start if start.tzinfo else start.replace(tzinfo=clock)).timestamp() * 1000)
    for _ in range(count):
        found = schedule.after(at, clock)
        assert found is not None
        assert found > at
        at = found
        local = datetime.fromtimestamp(at / 1000, clock)
        shown.append(local.isoformat(sep=" ") if zone else local.strftime("%Y-%m-%d %H:%M:%S"))
    return shown


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("0 9 * * *", "2026-11-15 08:59:59", ["2026-11-15 09:00:00", "2026-11-16 09:00:00"]),
        ("0 9 * * *", "2026-11-15 09:00:00", ["2026-11-16 09:00:00"]),
        ("*/20 * * * *", "2026-12-31 23:30", ["2026-12-31 23:40:00", "2027-01-01 00:00:00"]),
        ("5/20 * * * *", "2026-11-15 00:00", ["2026-11-15 00:05:00", "2026-11-15 00:25:00", "2026-11-15 00:45:00"]),
        ("10-20/5 3 * * *", "2026-11-15 03:00", ["2026-11-15 03:10:00", "2026-11-15 03:15:00", "2026-11-15 03:20:00"]),
        ("0,30 1,2 * * *", "2026-11-15 00:00", ["2026-11-15 01:00:00", "2026-11-15 01:30:00", "2026-11-15 02:00:00"]),
        ("0 22-1 * * *", "2026-11-15 22:30", ["2026-11-15 23:00:00", "2026-11-16 00:00:00", "2026-11-16 01:00:00"]),
        ("0 9 * * MON-fri", "2026-11-13 10:00", ["2026-11-16 09:00:00"]),
        ("0 9 * * fri-mon", "2026-11-13 10:00", ["2026-11-14 09:00:00", "2026-11-15 09:00:00", "2026-11-16 09:00:00"]),
        ("0 9 * * 7", "2026-11-13 10:00", ["2026-11-15 09:00:00", "2026-11-22 09:00:00"]),
        ("0 9 * * 0-7/2", "2026-11-15 10:00", ["2026-11-17 09:00:00", "2026-11-19 09:00:00", "2026-11-21 09:00:00"]),
        ("0 0 1 jan,JUL *", "2026-11-15", ["2027-01-01 00:00:00", "2027-07-01 00:00:00"]),
        ("0 0 13 * 5", "2026-11-01", ["2026-11-06 00:00:00", "2026-11-13 00:00:00", "2026-11-20 00:00:00"]),
        ("0 0 13 * ?", "2026-11-01", ["2026-11-13 00:00:00", "2026-12-13 00:00:00"]),
        ("0 0 ? * 5", "2026-11-01", ["2026-11-06 00:00:00"]),
        ("0 0 L * *", "2027-01-31", ["2027-02-28 00:00:00", "2027-03-31 00:00:00"]),
        ("0 0 1,L 2 *", "2028-01-31", ["2028-02-01 00:00:00", "2028-02-29 00:00:00"]),
        ("0 0 * * fri#2", "2026-11-01", ["2026-11-13 00:00:00", "2026-12-11 00:00:00"]),
        ("0 0 * * L5", "2026-11-01", ["2026-11-27 00:00:00", "2026-12-25 00:00:00"]),
        ("0 0 29 2 *", "2097-01-01", ["2104-02-29 00:00:00"]),
        ("0 9 * * * 15,45", "2026-11-15 09:00:20", ["2026-11-15 09:00:45", "2026-11-16 09:00:15"]),
        ("  0   9 *  * * ", "2026-11-15", ["2026-11-15 09:00:00"]),
        ("000000000000 0000000000009 * * *", "2026-11-15", ["2026-11-15 09:00:00"]),
        ("@hourly", "2026-11-15 01:00", ["2026-11-15 02:00:00"]),
        ("@daily", "2026-11-15 01:00", ["2026-11-16 00:00:00"]),
        ("@midnight", "2026-11-15 01:00", ["2026-11-16 00:00:00"]),
        ("@weekly", "2026-11-15 01:00", ["2026-11-22 00:00:00"]),
        ("@monthly", "2026-11-15 01:00", ["2026-12-01 00:00:00"]),
        ("@Yearly", "2026-11-15 01:00", ["2027-01-01 00:00:00"]),
        ("@annually", "2026-11-15 01:00", ["2027-01-01 00:00:00"]),
    ],
)
def test_the_next_matches_are_found(text: str, after: str, expected: list[str]) -> None:
    assert matches(text, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bogus", "expected 5 or 6 fields (minute, hour, day, month, weekday and optionally second), got 1"),
        ("", "expected 5 or 6 fields (minute, hour, day, month, weekday and optionally second), got 0"),
        ("* * * *", "expected 5 or 6 fields (minute, hour, day, month, weekday and optionally second), got 4"),
        ("* * * * * * *", "expected 5 or 6 fields (minute, hour, day, month, weekday and optionally second), got 7"),
        ("60 * * * *", "minute: '60' is not a number from 0 to 59"),
        ("* 24 * * *", "hour: '24' is not a number from 0 to 23"),
        ("* * 0 * *", "day: '0' is not a number from 1 to 31"),
        ("* * * 13 *", "month: '13' is not a number from 1 to 12"),
        ("* * * * 8", "weekday: '8' is not a number from 0 to 7"),
        ("* * * * * 60", "second: '60' is not a number from 0 to 59"),
        ("* ? * * *", "hour: '?' is not a number"),
        ("*/0 * * * *", "minute: the step of '*/0' must be a number from 1 to 59"),
        ("*/ * * * *", "minute: the step of '*/' must be a number"),
        ("*/x * * * *", "minute: the step of '*/x' must be a number"),
        ("*/99999999999999999999 * * * *", "must be a number from 1 to 59"),
        ("99999999999999999999 * * * *", "is not a number from 0 to 59"),
        ("00000000599999 * * * *", "is not a number from 0 to 59"),
        ("0-000000005999999999999 * * * *", "is not a number from 0 to 59"),
        ("*/00000000599999 * * * *", "must be a number from 1 to 59"),
        ("9" * 247 + " * * * *", "is not a number from 0 to 59"),
        ("-5 * * * *", "minute: '' is not a number"),
        ("1- * * * *", "minute: '' is not a number"),
        ("1,,2 * * * *", "minute: '' is not a number"),
        ("٣ * * * *", "minute: '٣' is not a number"),
        ("mon * * * *", "minute: 'mon' is not a number"),
        ("* * * * fri#6", "weekday: 'fri#6' is not a number"),
        ("0 0 30 2 *", "no date ever matches it"),
        ("@reboot", "@reboot is not one of @hourly"),
        ("*" * 300, "it is longer than 255 characters"),
    ],
)
def test_an_invalid_schedule_is_rejected_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_schedule(text)
    assert error.value.message.startswith(f"Invalid cron schedule: '{text[:255]}'. Reason: ")
    assert reason in error.value.message


# -- daylight saving time ----------------------------------------------------------------------------------------------


def test_a_skipped_time_matches_when_the_clock_moves_forward() -> None:
    assert matches("30 2 * * *", "2027-03-27 12:00", 2, BERLIN) == [
        "2027-03-28 03:00:00+02:00",
        "2027-03-29 02:30:00+02:00",
    ]


def test_several_skipped_times_match_once() -> None:
    assert matches("*/10 2 * * *", "2027-03-27 12:00", 2, BERLIN) == [
        "2027-03-28 03:00:00+02:00",
        "2027-03-29 02:00:00+02:00",
    ]


def test_a_repeated_time_matches_on_its_first_occurrence() -> None:
    assert matches("30 2 * * *", "2027-10-30 12:00", 2, BERLIN) == [
        "2027-10-31 02:30:00+02:00",
        "2027-11-01 02:30:00+01:00",
    ]


@pytest.mark.parametrize("between", ["2027-10-31T00:45:00+00:00", "2027-10-31T01:15:00+00:00"])
def test_a_repeated_time_does_not_match_on_its_second_occurrence(between: str) -> None:
    assert matches("30 2 * * *", between, 1, BERLIN) == ["2027-11-01 02:30:00+01:00"]


def test_every_hour_follows_elapsed_time() -> None:
    assert matches("30 * * * *", "2027-10-31T00:00:00+00:00", 3, BERLIN) == [
        "2027-10-31 02:30:00+02:00",
        "2027-10-31 02:30:00+01:00",
        "2027-10-31 03:30:00+01:00",
    ]
    assert matches("30 * * * *", "2027-03-28T00:00:00+00:00", 3, BERLIN) == [
        "2027-03-28 01:30:00+01:00",
        "2027-03-28 03:30:00+02:00",
        "2027-03-28 04:30:00+02:00",
    ]


def test_every_second_hour_follows_the_wall_clock() -> None:
    assert matches("0 */2 * * *", "2026-11-01T03:30:00+00:00", 3, NEW_YORK) == [
        "2026-11-01 00:00:00-04:00",
        "2026-11-01 02:00:00-05:00",
        "2026-11-01 04:00:00-05:00",
    ]


def test_the_clock_may_move_back_by_half_an_hour() -> None:
    assert matches("45 * * * *", "2026-04-04T14:00:00+00:00", 3, LORD_HOWE) == [
        "2026-04-05 01:45:00+11:00",
        "2026-04-05 01:45:00+10:30",
        "2026-04-05 02:45:00+10:30",
    ]


# -- arbitrary schedules -----------------------------------------------------------------------------------------------


def parts(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high).map(str)
    one = st.one_of(
        number,
        st.builds("{}-{}".format, number, number),
        st.builds("*/{}".format, st.integers(1, high)),
        st.builds("{}-{}/{}".format, number, number, st.integers(1, high)),
    )
    return st.one_of(st.just("*"), st.lists(one, min_size=1, max_size=3).map(",".join))


schedules = st.builds(
    "{} {} {} {} {}".format, parts(0, 59), parts(0, 23), parts(1, 28), parts(1, 12), parts(0, 7)
) | st.sampled_from(sorted(ALIASES))
times = st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)).map(lambda time: time.replace(tzinfo=UTC))
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]).map(
    ZoneInfo
)


@given(schedules, times, zones)
@settings(max_examples=300, deadline=None)
def test_the_next_match_is_later_and_nothing_lies_between(text: str, time: datetime, zone: ZoneInfo) -> None:
    """From any time before the match the result is the same; from the match itself it is a later one."""
    schedule, at = parse_schedule(text), round(time.timestamp() * 1000)
    found = schedule.after(at, zone)
    assert found is not None
    assert found > at
    assert found % 1000 == 0
    assert schedule.after((at + found) // 2, zone) == found
    assert schedule.after(found - 1, zone) == found
    following = schedule.after(found, zone)
    assert following is not None
    assert following > found


def _matches_fields(text: str, shown: datetime) -> bool:
    """Whether one minute matches the five fields, by a naive implementation."""

    def allowed(field: str, low: int, high: int) -> set[int]:
        numbers: set[int] = set()
        for part in field.split(","):
            span, _, step = part.partition("/")
            start, _, end = (f"{low}-{high}" if span == "*" else span if "-" in span else f"{span}-{span}").partition(
                "-"
            )
            a, b, size = int(start), int(end), high - low + 1
            length = b - a if b >= a else b - a + size
            numbers |= {(a - low + offset) % size + low for offset in range(0, length + 1, int(step or 1))}
        return numbers

    minute, hour, day, month, weekday = ALIASES.get(text, text).split()
    by_date = shown.day in allowed(day, 1, 31)
    by_weekday = shown.isoweekday() % 7 in {number % 7 for number in allowed(weekday, 0, 6 if weekday == "*" else 7)}
    either = day != "*" and weekday != "*"
    return (
        shown.minute in allowed(minute, 0, 59)
        and shown.hour in allowed(hour, 0, 23)
        and shown.month in allowed(month, 1, 12)
        and (by_date or by_weekday if either else by_date and by_weekday)
    )


simple = st.builds(
    "{} {} {} {} {}".format,
    parts(0, 59),
    parts(0, 23),
    parts(1, 28),
    parts(1, 12),
    st.just("*") | st.lists(st.integers(0, 6).map(str), min_size=1, max_size=3).map(",".join),
)


@given(simple, times)
@settings(max_examples=200, deadline=None)
def test_no_minute_before_the_next_match_matches(text: str, time: datetime) -> None:
    time = time.replace(microsecond=time.microsecond // 1000 * 1000)  # timestamps are in milliseconds
    found = parse_schedule(text).after(round(time.timestamp() * 1000))
    assert found is not None
    hit = datetime.fromtimestamp(found / 1000, UTC)
    assert _matches_fields(text, hit)
    minute = time.replace(second=0, microsecond=0) + timedelta(minutes=1)
    for _ in range(500):
        if minute >= hit:
            break
        assert not _matches_fields(text, minute)
        minute += timedelta(minutes=1)
