"""Sliding, calendar, session and global windows: which spans of time hold an event."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from latecomer.errors import PipelineError
from latecomer.model.durations import DAY, iso, to_micros
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows import (
    FIRST_MOMENT,
    AnyWindow,
    Calendar,
    FixedWindow,
    Global,
    Session,
    Sliding,
    Tumbling,
    Window,
)
from scenarios import HOUR, MINUTE, quick, thorough

MOMENTS = st.integers(-40 * 365 * DAY, 60 * 365 * DAY)
ZONES = (
    "UTC",
    "Asia/Kolkata",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # moved its clocks at midnight
    "America/Havana",  # moves them back from one o'clock to midnight
    "Australia/Lord_Howe",  # moves them by half an hour
    "Pacific/Apia",  # left out 30 December 2011
)
UNITS = ("day", "week", "month", "quarter", "year")


def at(written: str, zone: str = "UTC") -> int:
    return to_micros(datetime.fromisoformat(written).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC))


def outcome_of(window: Window) -> tuple[str | None, str | None]:
    return iso(window.start), iso(window.end)


# Sliding


def test_an_event_is_in_every_sliding_window_that_holds_it() -> None:
    assert Sliding("5m", every="2m").assign_all(6 * MINUTE) == (
        Window(2 * MINUTE, 7 * MINUTE),
        Window(4 * MINUTE, 9 * MINUTE),
        Window(6 * MINUTE, 11 * MINUTE),
    )


def test_an_offset_moves_sliding_windows() -> None:
    moved = Sliding("2m", every="2m", offset="30s").assign_all(0)
    assert moved == (Window(-90_000_000, 30_000_000),)


def test_sliding_by_the_size_is_tumbling() -> None:
    for moment in range(-50, 50):
        sliding = Sliding("7us", every="7us", offset="3us").assign_all(moment)
        assert sliding == Tumbling("7us", offset="3us").assign_all(moment)


def test_sliding_further_than_the_size_would_leave_events_out() -> None:
    with pytest.raises(PipelineError, match="write every: 5m or less"):
        Sliding("5m", every="6m")


@given(st.integers(1, 20), st.integers(1, 20), st.integers(-30, 30), st.integers(-100, 100))
@thorough
def test_sliding_windows_are_exactly_those_that_hold_the_event(
    size: int, every: int, offset: int, moment: int
) -> None:
    size = max(size, every)
    windows = Sliding(f"{size}us", every=f"{every}us", offset=f"{offset}us").assign_all(moment)
    starts = [start for start in range(-200, 200) if (start - offset) % every == 0]
    assert windows == tuple(Window(s, s + size) for s in starts if s <= moment < s + size)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(-9, 9), st.integers(-50, 50), st.integers(0, 50))
@quick
def test_sliding_ends(size: int, every: int, offset: int, after: int, length: int) -> None:
    size = max(size, every)
    sliding = Sliding(f"{size}us", every=f"{every}us", offset=f"{offset}us")
    found = {window.end for moment in range(-80, 120) for window in sliding.assign_all(moment)}
    until = after + length
    assert list(sliding.ends(after, until)) == sorted(end for end in found if after < end <= until)


# Calendar


@pytest.mark.parametrize(
    ("unit", "start", "end"),
    [
        ("day", "2024-02-29", "2024-03-01"),
        ("week", "2024-02-26", "2024-03-04"),
        ("month", "2024-02-01", "2024-03-01"),
        ("quarter", "2024-01-01", "2024-04-01"),
        ("year", "2024-01-01", "2025-01-01"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_calendar_windows_run_from_midnight_to_midnight(unit: str, start: str, end: str, zone: str) -> None:
    (window,) = Calendar(unit, zone=zone).assign_all(at("2024-02-29T23:59:59", zone))
    assert window == Window(at(start, zone), at(end, zone))


def test_months_end_where_the_zone_says() -> None:
    months = Calendar("month", zone="Asia/Kolkata")
    assert outcome_of(months.assign_all(at("2026-04-30T18:29:59"))[0]) == (
        "2026-03-31T18:30:00Z",
        "2026-04-30T18:30:00Z",
    )
    assert outcome_of(months.assign_all(at("2026-04-30T18:30:00"))[0])[0] == "2026-04-30T18:30:00Z"


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)])
def test_a_day_of_a_clock_change_is_longer_or_shorter(day: str, hours: int) -> None:
    (window,) = Calendar("day", zone="Europe/Berlin").assign_all(at(f"{day}T12:00:00", "Europe/Berlin"))
    assert window.end - window.start == hours * HOUR


def test_a_day_whose_midnight_was_skipped_begins_with_the_jump() -> None:
    (window,) = Calendar("day", zone="America/Sao_Paulo").assign_all(at("2018-11-04T12:00:00"))
    assert outcome_of(window) == ("2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z")


def test_a_midnight_that_came_twice_counts_the_first_time() -> None:
    (window,) = Calendar("day", zone="America/Havana").assign_all(at("2026-11-01T12:00:00"))
    assert outcome_of(window) == ("2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z")


def test_a_day_that_was_left_out_holds_nothing() -> None:
    days = Calendar("day", zone="Pacific/Apia")
    before, after = (
        days.assign_all(at("2011-12-30T09:59:59"))[0],
        days.assign_all(at("2011-12-30T10:00:00"))[0],
    )
    assert before.end == after.start == at("2011-12-30T10:00:00")
    assert after.end - after.start == DAY


@given(st.sampled_from(UNITS), st.sampled_from(ZONES), MOMENTS)
@thorough
def test_calendar_windows_partition_time(unit: str, zone: str, moment: int) -> None:
    calendar = Calendar(unit, zone=zone)
    (window,) = calendar.assign_all(moment)
    assert window.start <= moment < window.end
    assert calendar.assign_all(window.start) == calendar.assign_all(window.end - 1) == (window,)
    assert calendar.assign_all(window.end)[0].start == window.end
    assert window.end - window.start <= calendar.reach


@given(st.sampled_from(ZONES), MOMENTS)
@quick
def test_a_calendar_day_is_a_tumbling_day(zone: str, moment: int) -> None:
    assert Calendar("day", zone=zone).assign_all(moment) == Tumbling("1d", zone=zone).assign_all(moment)


# Sessions and the global window


def test_an_event_stands_for_the_gap_after_it() -> None:
    assert Session("30us").span(5) == Window(5, 35)


@given(st.integers(1, 20), st.integers(1, 40), st.integers(-100, 100))
@quick
def test_no_span_reaches_across_a_multiple_of_max(gap: int, most: int, moment: int) -> None:
    span = Session(f"{gap}us", max=f"{max(gap, most)}us").span(moment)
    assert span.start == moment < span.end <= moment + gap
    assert span.start // max(gap, most) == (span.end - 1) // max(gap, most)


def test_max_must_hold_the_gap() -> None:
    with pytest.raises(PipelineError, match="write max: 30m or more"):
        Session("30m", max="10m")


def test_the_global_window_holds_all_of_time() -> None:
    assert Global().assign_all(-5) == (Window(FIRST_MOMENT, END_OF_TIME),)
    assert list(Global().ends(0, END_OF_TIME - 1)) == []
    assert list(Global().ends(0, END_OF_TIME)) == [END_OF_TIME]


# All of them


@given(
    st.sampled_from(
        [
            Tumbling("7d", zone="Europe/Berlin"),
            Sliding("3d", every="2d"),
            Calendar("month", zone="Asia/Kolkata"),
        ]
    ),
    MOMENTS,
    st.integers(0, 400 * DAY),
)
@quick
def test_every_end_is_the_end_of_a_window(window: FixedWindow, after: int, length: int) -> None:
    for end in window.ends(after, after + length):
        assert [each.end for each in window.assign_all(end - 1)].count(end) == 1


WRITTEN = [
    ({"tumbling": "1m"}, Tumbling("1m")),
    ({"sliding": "5m", "every": "1m"}, Sliding("5m", every="1m")),
    ({"session": "30m", "max": "8h"}, Session("30m", max="8h")),
    ({"calendar": "month", "zone": "Asia/Kolkata"}, Calendar("month", zone="Asia/Kolkata")),
    ({"global": True}, Global()),
]


@pytest.mark.parametrize(("written", "expected"), WRITTEN)
def test_a_window_is_read_as_it_is_written(written: object, expected: object) -> None:
    adapter: TypeAdapter[AnyWindow] = TypeAdapter(AnyWindow)
    assert adapter.validate_python(written) == expected
    assert (
        adapter.validate_python(adapter.dump_python(adapter.validate_python(written), mode="json"))
        == expected
    )


@pytest.mark.parametrize(
    ("written", "fix"),
    [
        ({"tumblin": "1m"}, "did you mean tumbling"),
        ({"tumbling": "1m", "session": "1m"}, "is tumbling and session at once; keep one"),
        ({}, "write {tumbling: 1m}"),
        ("1m", "write {tumbling: 1m}"),
        ({"sliding": "5m"}, "Field required"),
        ({"calendar": "fortnight"}, "'day', 'week', 'month', 'quarter' or 'year'"),
        ({"global": False}, "True"),
    ],
)
def test_a_window_that_is_none_is_refused(written: object, fix: str) -> None:
    adapter: TypeAdapter[AnyWindow] = TypeAdapter(AnyWindow)
    with pytest.raises(ValidationError, match=fix):
        adapter.validate_python(written)
