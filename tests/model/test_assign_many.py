"""Many events at once are put into the same windows as one by one: offsets, zones, calendars, clock changes."""

from __future__ import annotations

import random
from datetime import datetime

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.durations import DAY, to_micros
from latecomer.model.windows import Calendar, FixedWindow, Global, Sliding, Tumbling, Window
from latecomer.model.zones import day_of, midnight
from zone_kit import HOUR, MINUTE, SECOND, changes

WINDOWS = [
    Tumbling(size, zone=zone, offset=offset)
    for size, zone, offset in (
        ("6h", "America/New_York", "0s"),
        ("1h", "America/New_York", "0s"),
        ("20m", "America/New_York", "10m"),
        ("12h", "America/New_York", "2h30m"),
        ("90m", "Europe/Berlin", "0s"),
        ("30m", "Europe/Berlin", "0s"),
        ("1h", "America/Havana", "30m"),
        ("6h", "America/Havana", "0s"),
        ("2h", "America/Santiago", "0s"),
        ("6h", "Australia/Lord_Howe", "0s"),
        ("1h", "Australia/Lord_Howe", "0s"),
        ("20m", "Australia/Lord_Howe", "0s"),
        ("6h", "Pacific/Apia", "0s"),
        ("1h", "Pacific/Apia", "0s"),
        ("8h", "America/St_Johns", "-1h"),
        ("1h", "America/St_Johns", "0s"),
        ("1h", "Antarctica/Casey", "0s"),
        ("2h", "Antarctica/Troll", "0s"),
        ("4h", "Africa/Casablanca", "0s"),
        ("15m", "Asia/Kathmandu", "0s"),
    )
]


def moments(window: Tumbling) -> list[int]:
    """Next to some of the zone's changes: every half hour, moments drawn, and the edges of the windows."""
    rng = random.Random(f"{window}")
    known = list(changes(window.zone, 1971, 2030))
    found = set()
    for change in rng.sample(known, min(8, len(known))):
        found |= {change + step * 30 * MINUTE for step in range(-30, 31)}
        found |= {change + rng.randrange(-30 * HOUR, 30 * HOUR) for _ in range(20)}
    edges = {edge for moment in found for edge in window.assign(moment)}
    return sorted(found | edges | {edge - 1 for edge in edges})


def assigned(window: FixedWindow, times: list[int]) -> dict[int, Window]:
    """The window of each moment, asked for all at once."""
    nth, start, end, first_end = window.assign_many(np.array(times, np.int64))
    assert nth.tolist() == list(range(len(times)))
    assert first_end.tolist() == end.tolist()
    return dict(zip(times, map(Window, start.tolist(), end.tolist()), strict=True))


def test_windows_within_days_are_those_of_single_events_in_many_zones() -> None:
    asked = 0
    for window in WINDOWS:
        found = assigned(window, moments(window))
        asked += len(found)
        assert {time: held for time, held in found.items() if held != window.assign(time)} == {}
    assert asked > 10_000
    found = assigned(WINDOWS[0], moments(WINDOWS[0]))
    assert {held.end - held.start for held in found.values()} == {5 * HOUR, 6 * HOUR, 7 * HOUR}


CALENDARS = {
    # Midnight strikes twice, and is jumped over.
    "havana_days": (Calendar("day", zone="America/Havana"), ("2026-11-01T05:00", "2026-03-08T05:00")),
    # 2011-12-30 is missing.
    "apia_days": (Calendar("day", zone="Pacific/Apia"), ("2011-12-30T10:00",)),
    "apia_weeks": (Calendar("week", zone="Pacific/Apia"), ("2011-12-30T10:00",)),
    "berlin_months": (Calendar("month", zone="Europe/Berlin"), ("2026-03-29T01:00", "2026-10-25T01:00")),
    "new_york_weeks": (Calendar("week", zone="America/New_York"), ("2026-03-08T07:00", "2026-11-01T06:00")),
    "kolkata_months": (Calendar("month", zone="Asia/Kolkata"), ("2024-02-29T18:30", "2026-12-31T18:30")),
    "kolkata_quarters": (Calendar("quarter", zone="Asia/Kolkata"), ("2024-03-31T18:30",)),
    "lord_howe_years": (Calendar("year", zone="Australia/Lord_Howe"), ("2025-12-31T13:00",)),
    # A minute after midnight the clock goes back to the day, and the month, before.
    "st_johns_days": (Calendar("day", zone="America/St_Johns"), ("2009-11-01T02:31", "2010-11-07T02:31")),
    "st_johns_months": (Calendar("month", zone="America/St_Johns"), ("2009-11-01T02:31",)),
    # From half past eleven the clock goes to half past midnight.
    "toronto_days": (Calendar("day", zone="America/Toronto"), ("1919-03-31T04:30",)),
    "toronto_weeks": (Calendar("week", zone="America/Toronto"), ("1919-03-31T04:30",)),
}
MISLED = {"st_johns_days", "st_johns_months", "toronto_days", "toronto_weeks"}
"""Where the wall clock alone names the wrong window for a while."""


def around(window: Calendar, change: int) -> set[int]:
    """Minutes next to a change, hours for two days, days for two months, and the edges of the windows."""
    found = {change + step * 5 * MINUTE for step in range(-24, 25)}
    found |= {change + step * HOUR + aside for step in range(-48, 49) for aside in (-1, 0, 30 * SECOND)}
    found |= {change + step * 25 * HOUR for step in range(-60, 61)}
    edges = {edge for moment in found for edge in window.assign_all(moment)[0]}
    return found | {edge + aside for edge in edges for aside in (-1, 0, 1)}


def test_calendar_windows_at_clock_changes_are_those_of_single_events() -> None:
    misled = set()
    for name, (window, written) in CALENDARS.items():
        at = [to_micros(datetime.fromisoformat(f"{change}Z")) for change in written]
        times = sorted(set().union(*(around(window, change) for change in at)))
        found = assigned(window, times)
        assert found == {time: window.assign_all(time)[0] for time in times}
        for time, held in found.items():
            assert held.start <= time < held.end
            if not held.start <= midnight(day_of(time, window.zone), window.zone) < held.end:
                misled.add(name)
    assert misled == MISLED


YEARS = st.integers(
    to_micros(datetime.fromisoformat("1890-01-01T00:00Z")),
    to_micros(datetime.fromisoformat("2200-01-01T00:00Z")),
)
ANY = [
    Tumbling("1m"),
    Tumbling("7us", offset="-3us"),
    Tumbling("7d", zone="Europe/Berlin", offset="-6h"),
    Tumbling("15m", zone="Asia/Kathmandu"),
    Tumbling("1us", zone="America/New_York"),
    Sliding("5m", every="1m"),
    Sliding("7us", every="3us", offset="1us"),
    Calendar("day"),
    Calendar("month", zone="Asia/Kolkata"),
    Global(),
]


@given(st.sampled_from(ANY), st.lists(YEARS, max_size=20))
def test_any_windows_are_those_of_single_events(window: FixedWindow, times: list[int]) -> None:
    nth, start, end, first_end = (each.tolist() for each in window.assign_many(np.array(times, np.int64)))
    expected = [(at, *each) for at, time in enumerate(times) for each in window.assign_all(time)]
    assert list(zip(nth, start, end, strict=True)) == expected
    assert first_end == [window.assign_all(times[at])[0].end for at in nth]


@given(st.sampled_from(ANY), st.lists(YEARS, max_size=20))
def test_the_last_window_of_an_event_is_found_by_its_end(window: FixedWindow, times: list[int]) -> None:
    ends = window.last_ends(np.array(times, np.int64))
    found = [Window(*each) for each in zip(window.starts(ends).tolist(), ends.tolist(), strict=True)]
    assert found == [window.assign_all(time)[-1] for time in times]


def test_there_may_be_more_windows_than_anyone_would_look_up() -> None:
    window = Tumbling("1s", zone="Europe/Berlin")
    change = to_micros(datetime.fromisoformat("2026-03-29T01:00Z"))
    times = np.arange(change - 2 * DAY, change + 2 * DAY, 5 * SECOND, dtype=np.int64)
    _, start, end, _ = window.assign_many(times)
    assert len(np.unique(start)) == len(times) > 60_000
    assert np.all((start <= times) & (times < end) & (end - start == SECOND))
