"""Windows of a zone follow its wall clock: the same times on every day, whatever the clock does."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.durations import DAY, to_micros
from latecomer.model.windows import Tumbling, Window
from latecomer.model.zones import midnight
from scenarios import thorough
from zone_kit import HOUR, MINUTE, changes, wall

NEW_YORK = "America/New_York"


def windows_of(day: date, size: str, zone: str, days: int = 1) -> list[Window]:
    """The windows from this day's midnight on, until the midnight that many days later."""
    tumbling = Tumbling(size, zone=zone)
    found = [tumbling.assign(midnight(day, zone))]
    while found[-1].end < midnight(day + timedelta(days=days), zone):
        found.append(tumbling.assign(found[-1].end))
    return found


def shown(day: date, size: str, zone: str, days: int = 1) -> list[str]:
    """Where each window begins on the wall clock, and how long it lasts in minutes."""
    return [
        f"{wall(each.start, zone):%H:%M} {(each.end - each.start) // MINUTE}"
        for each in windows_of(day, size, zone, days)
    ]


def test_six_hours_begin_at_the_same_times_on_the_days_of_a_clock_change() -> None:
    assert shown(date(2013, 3, 9), "6h", NEW_YORK) == ["00:00 360", "06:00 360", "12:00 360", "18:00 360"]
    assert shown(date(2013, 3, 10), "6h", NEW_YORK) == ["00:00 300", "06:00 360", "12:00 360", "18:00 360"]
    assert shown(date(2013, 11, 3), "6h", NEW_YORK) == ["00:00 420", "06:00 360", "12:00 360", "18:00 360"]


def test_the_hour_that_the_clock_skips_is_not_there_and_the_one_it_repeats_is_two() -> None:
    assert shown(date(2013, 3, 10), "1h", NEW_YORK)[:4] == ["00:00 60", "01:00 60", "03:00 60", "04:00 60"]
    assert shown(date(2013, 11, 3), "1h", NEW_YORK)[:4] == ["00:00 60", "01:00 60", "01:00 60", "02:00 60"]
    assert len(shown(date(2013, 3, 10), "30m", NEW_YORK)) == 46
    assert len(shown(date(2013, 11, 3), "30m", NEW_YORK)) == 50


def test_a_change_by_half_an_hour_makes_one_window_longer_or_shorter() -> None:
    """On Lord Howe Island 02:00 becomes 01:30 in autumn, and 02:30 in spring."""
    lord_howe = "Australia/Lord_Howe"
    assert shown(date(2026, 4, 5), "6h", lord_howe)[0] == "00:00 390"
    assert shown(date(2026, 10, 4), "6h", lord_howe)[0] == "00:00 330"
    assert shown(date(2026, 4, 5), "1h", lord_howe)[:3] == ["00:00 60", "01:00 90", "02:00 60"]
    assert shown(date(2026, 10, 4), "1h", lord_howe)[:4] == ["00:00 60", "01:00 60", "02:30 30", "03:00 60"]
    # Twenty minutes do not divide the change: the last window of the hour takes the rest.
    assert shown(date(2026, 4, 5), "20m", lord_howe)[3:8] == [
        "01:00 20", "01:20 20", "01:40 20", "01:30 30", "02:00 20",
    ]  # fmt: skip


def test_where_the_clock_jumps_at_midnight_the_day_has_its_windows_too() -> None:
    """Havana goes from 00:00 to 01:00, and back from 01:00; Santiago goes back from 24:00."""
    assert shown(date(2026, 3, 8), "6h", "America/Havana") == [
        "01:00 300",
        "06:00 360",
        "12:00 360",
        "18:00 360",
    ]
    assert shown(date(2026, 11, 1), "6h", "America/Havana")[0] == "00:00 420"
    assert shown(date(2023, 4, 1), "6h", "America/Santiago")[-1] == "18:00 420"
    assert shown(date(2023, 4, 1), "1h", "America/Santiago")[-3:] == ["22:00 60", "23:00 60", "23:00 60"]


def test_a_day_that_is_skipped_has_no_windows() -> None:
    """Samoa went from 29 to 31 December 2011."""
    starts = [
        f"{wall(each.start, 'Pacific/Apia'):%d %H:%M}"
        for each in windows_of(date(2011, 12, 29), "12h", "Pacific/Apia", 3)
    ]
    assert starts == ["29 00:00", "29 12:00", "31 00:00", "31 12:00"]


def test_an_offset_moves_windows_on_the_wall_clock() -> None:
    quarters = Tumbling("6h", zone=NEW_YORK, offset="1h")
    for day in (date(2013, 3, 10), date(2013, 7, 1), date(2013, 11, 3)):
        starts = {
            wall(quarters.assign(midnight(day, NEW_YORK) + hour * HOUR).start, NEW_YORK).hour
            for hour in range(23)
        }
        assert starts == {19, 1, 7, 13}


def test_a_boundary_in_the_skipped_hour_is_read_as_a_time_there_is() -> None:
    """Half past two in the gap is half past three, as for a time that an event brings."""
    moved = Tumbling("12h", zone=NEW_YORK, offset="2h30m")
    noon = to_micros(datetime(2013, 3, 10, 16))
    assert wall(moved.assign(noon).start, NEW_YORK) == datetime(2013, 3, 10, 3, 30)


@pytest.mark.parametrize("size", ["45m", "7h", "7m", "36h"])
def test_a_size_that_fits_no_wall_clock_is_refused(size: str) -> None:
    with pytest.raises(ValueError, match="whole days, or divides a day, and below an hour divides an hour"):
        Tumbling(size, zone=NEW_YORK)
    assert Tumbling(size).size


ZONES = (
    NEW_YORK, "Europe/Berlin", "America/Havana", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia",
    "America/St_Johns", "Asia/Kolkata", "Asia/Kathmandu", "Africa/Casablanca", "Asia/Tehran", "Asia/Beirut",
)  # fmt: skip
CHANGES = {zone: list(changes(zone, 2005, 2026)) for zone in ZONES}


@pytest.mark.parametrize("zone", [zone for zone in ZONES if CHANGES[zone]])
@pytest.mark.parametrize("hours", [2, 6, 12])
def test_windows_are_those_that_counting_on_the_wall_clock_gives(zone: str, hours: int) -> None:
    """Minute by minute: a window ends when the clock first shows the next one's time, or jumps beyond it."""
    rng = random.Random(f"{zone} {hours}")
    tumbling = Tumbling(f"{hours}h", zone=zone)
    for change in rng.sample(CHANGES[zone], min(3, len(CHANGES[zone]))):
        begin = change - 30 * HOUR
        newest, minutes = datetime.min, []
        for at in range(begin, begin + 60 * HOUR, MINUTE):
            clock = wall(at, zone)
            newest = max(newest, clock.replace(hour=clock.hour // hours * hours, minute=0, second=0))
            minutes.append((at, newest))
        counted = [[at for at, _ in group] for _, group in groupby(minutes, key=lambda each: each[1])]
        for each in counted[1:-1]:
            assert tumbling.assign(each[0]) == Window(each[0], each[-1] + MINUTE)


@given(
    st.sampled_from(ZONES),
    st.sampled_from(["1m", "20m", "30m", "1h", "90m", "2h", "4h", "6h", "12h", "1d"]),
    st.sampled_from(["0s", "10m", "1h30m", "-3h"]),
    st.data(),
)
@thorough
def test_windows_of_a_zone_partition_time_around_every_change(
    zone: str, size: str, offset: str, data: st.DataObject
) -> None:
    tumbling = Tumbling(size, zone=zone, offset=offset)
    around = data.draw(st.sampled_from(CHANGES[zone] or [0]))
    moment = around + data.draw(st.integers(-2 * DAY, 2 * DAY) | st.integers(-3 * HOUR, 3 * HOUR))
    window = tumbling.assign(moment)
    assert window.start <= moment < window.end <= window.start + tumbling.reach
    assert tumbling.assign(window.start) == tumbling.assign(window.end - 1) == window
    assert tumbling.assign(window.end).start == window.end
    assert tumbling.assign(window.start - 1).end == window.start


def test_where_no_clock_changes_every_window_has_its_length() -> None:
    at, ends = to_micros(datetime(2026, 1, 1)), Tumbling("6h", zone="Asia/Kolkata").ends
    assert {later - earlier for earlier, later in pairwise(ends(at, at + 30 * DAY))} == {6 * HOUR}
