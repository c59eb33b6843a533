"""Days and weeks: a number is held against its like where that tells more, and a Sunday is no drift."""

from __future__ import annotations

import numpy as np
import pytest

from latecomer.model.nowcast.calibration import calibrated, drift, falls_short
from latecomer.model.nowcast.estimating import LEAST
from latecomer.model.nowcast.filling import CYCLES, DAY, EVENTS, PastNumbers, Rhythm, explained
from model.nowcast.worlds import HOUR, MONDAY, Weeks, World, exponential, slower_after

SEEDS = range(3)


def at_weekends(day: int, _: int) -> float:
    return 0.4 if day % 7 >= 5 else 0.05


def on_sundays(day: int, _: int) -> float:
    return 0.4 if day % 7 == 6 else 0.05


def at_work(_: int, hour: int) -> float:
    return 0.4 if 9 <= hour % 24 < 17 else 0.05


def always(_day: int, _hour: int) -> float:
    return 0.1


def held(world: Weeks, filled: PastNumbers, days: frozenset[int]) -> list[tuple[bool, float, str]]:
    """For each window of the newest third that is on these days: whether its interval held, how wide it was, and what
    it was held against."""
    found, starts = [], world.starts
    for row in range(len(starts) * 2 // 3, len(starts), 1 if days == SUNDAY else 5):
        if int(starts[row] - MONDAY) // DAY % 7 not in days:
            continue
        past = filled.chosen(EVENTS, 0, row - 2, int(starts[row]))
        outcome = past.estimate(float(filled.seen[EVENTS][row]))
        assert outcome is not None
        inside = bool(outcome.low <= filled.final[EVENTS][row] <= outcome.high)
        found.append((inside, (outcome.high - outcome.low) / outcome.value, past.like))
    return found


SUNDAY, WORKDAYS = frozenset({6}), frozenset(range(6))


@pytest.mark.parametrize(
    ("world", "days"),
    [
        (Weeks(on_sundays), SUNDAY),
        (Weeks(on_sundays), WORKDAYS),
        (Weeks(on_sundays, weeks=108, length=24 * HOUR), SUNDAY),
    ],
    ids=["hours of Sundays", "hours of other days", "Sundays"],
)
def test_intervals_of_90_percent_hold_85_to_95_percent_on_each_day(
    world: Weeks, days: frozenset[int]
) -> None:
    with_it = [each for seed in SEEDS for each in held(world, world.filled(seed), days)]
    without = [each for seed in SEEDS for each in held(world, world.filled(seed, rhythm=False), days)]
    inside, width, like = zip(*with_it, strict=True)
    assert set(like) == {"weekday"}
    assert 0.85 <= np.mean(inside) <= 0.95
    assert np.mean(width) < np.mean([each[1] for each in without]) / 2
    if days == SUNDAY:  # all days together hold 90 %: workdays more, and Sundays pay for it
        assert np.mean([each[0] for each in without]) < 0.75


def test_the_way_that_tells_most_is_taken() -> None:
    world = Weeks(at_work)
    filled, noon = world.filled(0), int(world.starts[-12])
    past = filled.chosen(EVENTS, 0, len(world.starts) - 12, noon)
    assert past.like == "hour"
    assert len(past) == 6 * 7 - 1, "noon on every day before"
    both = Weeks(lambda day, hour: 0.4 if day % 7 == 6 and hour % 24 >= 12 else 0.05, 40, 12 * HOUR)
    past = both.filled(0).chosen(EVENTS, 0, len(both.starts), int(both.starts[-1]))
    assert (past.like, len(past)) == ("hour and weekday", 40)


def test_without_a_rhythm_all_of_the_past_counts() -> None:
    world = Weeks(always)
    past = world.filled(0).chosen(EVENTS, 0, 900, int(world.starts[900]))
    assert (past.like, len(past)) == ("", 900)


@pytest.mark.parametrize(
    "world",
    [Weeks(on_sundays, CYCLES - 1), Weeks(on_sundays, LEAST - 2, 24 * HOUR)],
    ids=["two weeks of hours", "28 weeks of days"],
)
def test_what_was_seen_too_rarely_is_no_rhythm(world: Weeks) -> None:
    past = world.filled(0).chosen(EVENTS, 0, len(world.starts), int(world.starts[-1]))
    assert (past.like, len(past)) == ("", len(world.starts))


@pytest.mark.parametrize("weeks", [3, 4, 5])
def test_a_weekend_is_no_drift_and_a_slower_week_is(weeks: int) -> None:
    """The newest windows are those of a weekend."""
    steady = Weeks(at_weekends, weeks)
    assert drift([steady.filled(0, rhythm=False)]) is not None, "without the rhythm it seemed to be one"
    assert [drift([steady.filled(seed)]) for seed in SEEDS] == [None] * len(SEEDS)
    slower = Weeks(lambda day, hour: at_weekends(day, hour) + (0.1 if day >= 7 * (weeks - 1) else 0), weeks)
    found = drift([slower.filled(0)])
    assert found is not None
    assert found.newer < found.older


def test_held_back_numbers_are_estimated_with_the_rhythm() -> None:
    world = Weeks(on_sundays)
    found = [calibrated([world.filled(seed)], [EVENTS], world.starts, world.whole) for seed in SEEDS]
    coverage = sum(each.held for each in found) / sum(each.trials for each in found)
    assert 0.85 <= coverage <= 0.95
    assert not any(map(falls_short, found))
    plain = [calibrated([world.filled(seed, False)], [EVENTS], world.starts, world.whole) for seed in SEEDS]
    assert all((one.width or 0) < (other.width or 0) / 2 for one, other in zip(found, plain, strict=True))


def test_a_change_within_hours_is_not_taken_for_a_rhythm() -> None:
    """The hours of one day differ: nobody knows whether those of the next will."""
    world = World(slower_after(150, 20, 60), 200)
    assert Rhythm(world.starts).sortings == ()


def test_days_are_those_of_the_wall_clock() -> None:
    """Ten in the evening of Sunday in London in winter is Monday in Kolkata."""
    starts = MONDAY + np.arange(40 * 7) * DAY - 2 * HOUR
    names = {zone: [each.name for each in Rhythm(starts, zone).sortings] for zone in ("UTC", "Asia/Kolkata")}
    assert names == {"UTC": ["weekday"], "Asia/Kolkata": ["weekday"]}
    (utc,), (kolkata,) = Rhythm(starts).sortings, Rhythm(starts, "Asia/Kolkata").sortings
    assert utc.classes[:3].tolist() == [6, 0, 1]
    assert kolkata.classes[:3].tolist() == [0, 1, 2]


def test_chance_alone_is_no_rhythm() -> None:
    rng = np.random.default_rng(5)
    found = [explained(rng.random(280), np.arange(280) % 7) for _ in range(300)]
    assert sum(each > 0 for each in found) <= 2


def test_seconds_and_minutes_are_not_evened() -> None:
    world = World(exponential(30), 60)
    assert Rhythm(world.starts).evened(np.arange(60.0), np.arange(60)).tolist() == list(range(60))
