"""Windows: which interval of event time holds an event, in UTC and on a wall clock."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.errors import PipelineError
from latecomer.model.durations import DAY
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows import Calendar, Tumbling, Window
from scenarios import HOUR, MINUTE, clock, quick, thorough

BERLIN = Tumbling("1d", zone="Europe/Berlin")
KOLKATA = Tumbling("1d", zone="Asia/Kolkata")
DAILY = [
    BERLIN,
    KOLKATA,
    Tumbling("1d", zone="America/New_York"),
    Tumbling("1d", zone="America/Sao_Paulo"),  # moved its clocks at midnight
    Tumbling("1d", zone="Australia/Lord_Howe"),  # moves them by half an hour
    Tumbling("7d", zone="Europe/Berlin", offset="4d"),  # weeks from Monday
    Tumbling("1h", zone="Europe/Berlin"),
    Tumbling("6h", zone="America/Sao_Paulo"),
]


def test_a_window_holds_its_start_and_not_its_end() -> None:
    window = Tumbling("1m")
    assert window.assign(MINUTE - 1) == Window(0, MINUTE)
    assert window.assign(MINUTE) == Window(MINUTE, 2 * MINUTE)


def test_an_offset_moves_every_window() -> None:
    window = Tumbling("1h", offset="15m")
    assert window.assign(clock("14:14:59")) == Window(clock("13:15:00"), clock("14:15:00"))
    assert window.assign(clock("14:15:00")) == Window(clock("14:15:00"), clock("15:15:00"))


def test_an_offset_may_be_negative() -> None:
    assert Tumbling("1h", offset="-15m") != Tumbling("1h", offset="45m")
    assert Tumbling("1h", offset="-15m").assign(0) == Tumbling("1h", offset="45m").assign(0)


def test_times_before_1970_fall_into_windows_too() -> None:
    assert Tumbling("1m").assign(-1) == Window(-MINUTE, 0)
    assert Tumbling("1m", offset="10s").assign(-1) == Window(-50_000_000, 10_000_000)


def test_a_day_in_kolkata_starts_at_18_30_utc() -> None:
    start, end = clock("18:30:00", "2026-04-24"), clock("18:30:00", "2026-04-25")
    assert KOLKATA.assign(clock("18:29:59.999999")) == Window(start, end)
    assert KOLKATA.assign(start) == Window(start, end)
    assert KOLKATA.assign(clock("18:30:00")).start == end


def test_an_offset_is_counted_on_the_wall_clock() -> None:
    business_day = Tumbling("1d", offset="6h", zone="Asia/Kolkata")
    assert business_day.assign(clock("12:00:00")).start == clock("00:30:00")


@pytest.mark.parametrize(
    ("noon", "start", "hours"),
    [
        (clock("12:00:00", "2025-03-29"), clock("23:00:00", "2025-03-28"), 24),
        (clock("12:00:00", "2025-03-30"), clock("23:00:00", "2025-03-29"), 23),
        (clock("12:00:00", "2025-03-31"), clock("22:00:00", "2025-03-30"), 24),
        (clock("12:00:00", "2025-10-26"), clock("22:00:00", "2025-10-25"), 25),
    ],
)
def test_a_day_in_berlin_lasts_as_long_as_its_wall_clock_says(noon: int, start: int, hours: int) -> None:
    assert BERLIN.assign(noon) == Window(start, start + hours * HOUR)


def test_the_hour_that_a_wall_clock_shows_twice_is_two_windows() -> None:
    hourly = Tumbling("1h", zone="Europe/Berlin")
    first = Window(clock("00:00:00", "2025-10-26"), clock("01:00:00", "2025-10-26"))
    second = Window(clock("01:00:00", "2025-10-26"), clock("02:00:00", "2025-10-26"))
    assert hourly.assign(clock("00:30:00", "2025-10-26")) == first
    assert hourly.assign(clock("01:30:00", "2025-10-26")) == second


def test_the_hour_that_a_wall_clock_skips_has_no_window() -> None:
    hourly = Tumbling("1h", zone="Europe/Berlin")
    before, after = (hourly.assign(clock(time, "2025-03-30")) for time in ("00:30:00", "01:30:00"))
    assert before.end == after.start == clock("01:00:00", "2025-03-30")


def test_an_event_of_the_repeated_hour_lies_in_its_half_hour() -> None:
    moment = clock("01:10:00", "2025-10-26")
    start, end = Tumbling("30m", zone="Europe/Berlin").assign(moment)
    assert start <= moment < end


def test_an_event_lies_in_a_day_that_starts_within_the_skipped_hour() -> None:
    moment = clock("01:10:00", "2025-03-30")
    start, end = Tumbling("1d", offset="2h30m", zone="Europe/Berlin").assign(moment)
    assert start <= moment < end


def test_ends_are_after_the_first_bound_up_to_and_with_the_last() -> None:
    assert list(Tumbling("1m").ends(0, 2 * MINUTE)) == [MINUTE, 2 * MINUTE]
    assert list(Tumbling("1m").ends(MINUTE, 2 * MINUTE - 1)) == []
    for calendar in ("day", "week", "month", "quarter", "year"):  # nothing comes after the end of time
        assert list(Calendar(calendar=calendar).ends(END_OF_TIME, END_OF_TIME)) == []


def test_ends_on_a_wall_clock_follow_its_days() -> None:
    ends = list(BERLIN.ends(clock("12:00:00", "2025-03-29"), clock("12:00:00", "2025-04-01")))
    assert [later - earlier for earlier, later in pairwise(ends)] == [23 * HOUR, DAY]
    assert ends[0] == clock("23:00:00", "2025-03-29")


def test_an_unknown_zone_is_refused_with_the_fix() -> None:
    with pytest.raises(PipelineError, match="IANA name such as Asia/Kolkata"):
        Tumbling("1d", zone="Asia/Bombay-ish")


@pytest.mark.parametrize("size", ["0s", "-1m", 60, "soon"])
def test_a_size_that_is_no_positive_duration_is_refused(size: object) -> None:
    with pytest.raises(PipelineError):
        Tumbling(size)


@given(st.integers(-(10**15), 10**15), st.integers(1, 10**11), st.integers(-(10**12), 10**12))
@thorough
def test_windows_of_one_size_partition_time(event_time: int, size: int, offset: int) -> None:
    tumbling = Tumbling(f"{size}us", offset=f"{offset}us")
    window = tumbling.assign(event_time)
    assert window.start <= event_time < window.end == window.start + size
    assert (window.start - offset) % size == 0
    assert tumbling.assign(window.start) == tumbling.assign(window.end - 1) == window
    assert tumbling.assign(window.end).start == window.end


# 1971 to 2037; beside whole days, the hours around a change of the clocks.
_MOMENTS = st.one_of(
    st.integers(31_536_000_000_000, 2_114_380_800_000_000),
    st.integers(clock("00:00:00", "2025-03-30"), clock("04:00:00", "2025-03-30")),
    st.integers(clock("00:00:00", "2025-10-26"), clock("04:00:00", "2025-10-26")),
    st.integers(clock("00:00:00", "2018-11-04"), clock("06:00:00", "2018-11-04")),
)


@given(st.sampled_from(DAILY), _MOMENTS)
@thorough
def test_windows_on_a_wall_clock_partition_time(tumbling: Tumbling, event_time: int) -> None:
    window = tumbling.assign(event_time)
    assert window.start <= event_time < window.end
    assert tumbling.assign(window.start) == tumbling.assign(window.end - 1) == window
    assert tumbling.assign(window.end).start == window.end


@given(st.sampled_from(DAILY), _MOMENTS, st.integers(0, 20 * DAY))
@quick
def test_ends_are_the_ends_that_events_are_assigned(tumbling: Tumbling, after: int, length: int) -> None:
    until = after + min(length, 50 * tumbling.size)
    ends = list(tumbling.ends(after, until))
    assert ends == sorted(set(ends))
    assert all(after < end <= until for end in ends)
    moment, walked = after, []
    while (end := tumbling.assign(moment).end) <= until:
        walked.append(end)
        moment = end
    assert ends == walked
    for earlier, later in pairwise(ends):
        assert tumbling.assign(later - 1) == Window(earlier, later)
