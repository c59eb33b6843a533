"""Held-back history: intervals are measured by it, and a past that is no guide is noticed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.array_types import Integers
from latecomer.model.nowcast.calibration import (
    LEAST_TRIALS,
    TRIALS,
    Calibration,
    calibrated,
    drift,
    falls_short,
    rank_test,
)
from latecomer.model.nowcast.estimating import LEAST
from latecomer.model.nowcast.filling import EVENTS, SURE, Fillings, PastNumbers
from model.nowcast.worlds import MINUTE, WHOLE, World, exponential, lognormal, slower_after


def measured(world: World, seed: int) -> Calibration:
    return calibrated(world.filled(seed), [EVENTS], world.starts, WHOLE)


@pytest.mark.parametrize("delays", [exponential(30), lognormal(20)], ids=["exponential", "lognormal"])
def test_a_steady_source_is_found_calibrated_and_steady(delays: object) -> None:
    world = World(delays, 240)  # type: ignore[arg-type]
    filled = [world.filled(seed) for seed in range(3)]
    found = [calibrated(each, [EVENTS], world.starts, WHOLE) for each in filled]
    assert all(each.trials == TRIALS for each in found)
    assert 0.85 <= sum(each.held for each in found) / sum(each.trials for each in found) <= 0.95
    assert not any(map(falls_short, found))
    assert list(map(drift, filled)) == [None] * 3


def test_days_and_nights_are_no_drift() -> None:
    world = World(exponential(30), 240, lambda _, nth: 100 * (1.2 + np.sin(nth / 20)))
    assert [drift(world.filled(seed)) for seed in range(2)] == [None] * 2


@pytest.mark.parametrize("seed", range(2))
def test_a_source_that_became_slower_is_noticed(seed: int) -> None:
    world = World(slower_after(150, 20, 60), 200)
    found = drift(world.filled(seed))
    assert found is not None
    assert found.newer < found.older, "windows fill slower"
    calibration = measured(world, seed)
    assert calibration.coverage is not None
    assert calibration.coverage < 0.9
    assert falls_short(calibration)


@given(st.floats(20, 60), st.sampled_from([0.0, 0.0005, 0.001]), st.integers(0, 50))
@settings(max_examples=2)
def test_what_differs_by_less_than_a_percentage_point_is_no_drift(
    mean: float, slower: float, seed: int
) -> None:
    """Of windows with twenty thousand events a tenth of a percent is no chance, and no drift either."""
    world = World(slower_after(100, mean, mean * (1 + slower)), 200, lambda _, __: 20_000.0)
    assert drift(world.filled(seed)) is None


def test_a_difference_that_is_certain_and_small_is_no_drift() -> None:
    shares = np.concatenate([np.full(100, 691), np.full(100, 690)])
    (filled,) = filled_to(shares, 1000)
    windows, found = filled.shares()
    assert rank_test(found[:100], found[100:]) < SURE, "it is no chance"
    assert len(windows) == 200
    assert drift([filled]) is None
    (more,) = filled_to(np.concatenate([np.full(100, 691), np.full(100, 680)]), 1000)
    assert drift([more]) is not None, "a percentage point is one"


def filled_to(seen: Integers, of: int) -> list[PastNumbers]:
    """Windows of so many events, of which so many have come after a minute."""
    nth = np.repeat(np.arange(len(seen)), of)
    age = np.where(np.tile(np.arange(of), len(seen)) < np.repeat(seen, of), MINUTE // 2, 2 * MINUTE)
    whole = np.full(len(seen), WHOLE)
    return list(Fillings(nth, np.zeros(len(nth), np.int64), age, whole, {}).at([MINUTE]))


def test_a_source_that_slowly_became_slower_is_noticed() -> None:
    world = World(lambda rng, nth, count: rng.exponential((20 + nth / 5) * 1e6, count), 200)
    assert drift(world.filled(2)) is not None


def test_each_number_is_estimated_from_what_was_whole_by_then() -> None:
    """The first windows after the change have nothing but the old pace to go by: so it would have been."""
    world = World(slower_after(100, 5, 120), 140)
    late = calibrated(world.filled(0, (2 * MINUTE,)), [EVENTS], world.starts, WHOLE)
    by_then = late.newest_held / late.newest_trials
    assert by_then < 0.5


def test_too_little_history_is_not_measured() -> None:
    world = World(exponential(30), LEAST + 4)
    found = measured(world, 0)
    assert found.trials < LEAST_TRIALS
    assert not falls_short(found)
    assert drift(World(exponential(30), 20).filled(0)) is None
    nothing = calibrated([], [EVENTS], np.zeros(0, np.int64), WHOLE)
    assert (nothing.trials, nothing.coverage) == (0, None)
