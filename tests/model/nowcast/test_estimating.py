"""Estimates of final numbers: their intervals hold what they promise, whatever the delays are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.nowcast.estimating import LEAST, Past
from latecomer.model.nowcast.filling import EVENTS, Fillings
from model.nowcast.worlds import AGES, World, exponential, lognormal

FEW, MANY = 0.85, 0.95
WORLDS = {
    "a steady source": World(exponential(30), 300),
    "delays with a long tail": World(lognormal(20), 300),
    "a source that comes in bursts": World(exponential(30), 300, lambda rng, _: rng.gamma(3, 30)),
    "days and nights": World(exponential(30), 300, lambda _, nth: 100 * (1.2 + np.sin(nth / 20))),
    "keys of all sizes": World(exponential(30), 160, sizes=(2.0, 1.0, 0.7, 0.4, 0.3)),
    "many keys, each with little past": World(
        exponential(30), LEAST + 25, lambda _rng, _nth: 20.0, tuple(np.linspace(0.5, 6, 40))
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_intervals_of_90_percent_hold_85_to_95_percent(name: str) -> None:
    """The second part of each source is estimated from the first, which knows nothing of it."""
    world = WORLDS[name]
    half = max(world.windows // 2, LEAST - 2 if len(world.sizes) > 10 else 0)
    held: dict[str, list[bool]] = {EVENTS: [], "paise": []}
    for filled in [each for seed in range(2) for each in world.filled(seed)]:
        rows = np.flatnonzero((filled.window >= half) & (filled.seen[EVENTS] > 0))
        for row in rows[:: max(len(rows) // 150, 1)]:
            for column, outcome in held.items():
                past = filled.chosen(column, int(filled.key[row]), half)
                found = past.estimate(float(filled.seen[column][row]))
                assert found is not None
                assert past.alike == (len(world.sizes) < 10), "a key's own past where it has enough"
                outcome.append(bool(found.low <= filled.final[column][row] <= found.high))
    for column, outcome in held.items():
        assert len(outcome) > 500
        assert FEW <= np.mean(outcome) <= MANY, column


@given(
    st.floats(1, 12),
    st.sampled_from([10, 30, 90]),
    st.sampled_from(["steady", "in bursts"]),
    st.integers(0, 10_000),
)
@settings(max_examples=20, derandomize=True)
def test_intervals_of_small_counts_hold_what_they_promise_whatever_has_come(
    rate: float, mean: int, kind: str, seed: int
) -> None:
    """Not only all together: those of which one event has come, two, or three, each by themselves."""
    rates = {"steady": lambda _rng, _nth: rate, "in bursts": lambda rng, _nth: rng.gamma(0.7, 2 * rate)}
    held = total = 0
    for filled in World(exponential(mean), 1500, rates[kind]).filled(seed):
        later = filled.window >= 300
        for seen in range(1, 30):
            final = filled.final[EVENTS][later & (filled.seen[EVENTS] == seen)]
            found = filled.chosen(EVENTS, 0, 300).estimate(float(seen))
            assert found is not None
            inside = np.count_nonzero((final >= found.low) & (final <= found.high))
            assert len(final) < 150 or inside >= 0.8 * len(final), (filled.age, seen, found)
            held, total = held + inside, total + len(final)
    assert held >= FEW * total


def test_an_interval_between_two_counts_holds_both() -> None:
    """Half as many again come, without exception: of one event, one or two."""
    past = Past(np.arange(2.0, 82.0, 2), np.arange(3.0, 123.0, 3))
    found = past.estimate(1.0)
    assert found is not None
    assert (found.low, found.high) == (1, 2)


def test_a_window_that_has_just_begun_is_estimated_by_what_windows_are_used_to() -> None:
    """Three events after three seconds say little; that windows have a hundred in the end says much."""
    (filled,) = World(exponential(1), 200).filled(1, (3_000_000,))
    found = filled.chosen(EVENTS, 0, 200).estimate(3.0)
    assert found is not None
    assert 95 <= found.value <= 105
    assert found.high - found.low < 45


def test_a_rush_that_was_never_seen_is_estimated_in_proportion_and_widely() -> None:
    (filled,) = World(exponential(30), 200).filled(1, (AGES[1],))
    usual = float(np.median(filled.seen[EVENTS]))
    found = filled.chosen(EVENTS, 0, 200).estimate(10 * usual)
    assert found is not None
    assert found.unlike
    assert 900 <= found.value <= 1100
    assert found.low < 10 * usual + 100, "that only as much is to come as ever is not ruled out"


def test_too_few_past_numbers_give_no_estimate() -> None:
    few = Past(np.full(LEAST - 1, 10.0), np.full(LEAST - 1, 20.0))
    assert few.estimate(10.0) is None
    assert Past(np.full(LEAST, 10.0), np.full(LEAST, 20.0)).estimate(10.0) is not None


def test_numbers_that_were_whole_at_this_age_are_taken_as_they_are() -> None:
    seen = np.arange(1.0, 61.0)
    found = Past(seen, seen).estimate(30.0)
    assert found is not None
    assert (found.low, found.value, found.high) == (30.0, 30.0, 30.0)


amounts = st.lists(
    st.tuples(st.floats(0, 1e6, allow_subnormal=False), st.floats(0, 1e6, allow_subnormal=False)),
    min_size=LEAST,
    max_size=80,
)


@given(amounts, st.floats(0, 1e6, allow_subnormal=False), st.booleans())
@settings(max_examples=50)
def test_an_interval_holds_its_estimate_and_is_never_below_what_has_come(
    pairs: list[tuple[float, float]], seen: float, alike: bool
) -> None:
    had = np.array([each for each, _ in pairs])
    past = Past(had, had + np.array([more for _, more in pairs]), alike)
    found = past.estimate(seen)
    assert found is not None
    assert seen <= found.low <= found.high
    assert found.low <= found.value <= found.high
    assert np.isfinite([found.low, found.value, found.high]).all()


@given(amounts, st.floats(1, 1e6), st.integers(-3, 3))
@settings(max_examples=30)
def test_paise_and_rupees_are_estimated_alike(
    pairs: list[tuple[float, float]], seen: float, power: int
) -> None:
    unit = 10.0**power
    had = np.array([each + 1 for each, _ in pairs])
    final = had + np.array([round(more) for _, more in pairs])
    one, other = Past(had, final).estimate(seen), Past(had * unit, final * unit).estimate(seen * unit)
    assert one is not None
    assert other is not None
    assert other.value == pytest.approx(one.value * unit, rel=1e-3)


events = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(-3, 30)), max_size=40)


@given(events, st.lists(st.integers(-5, 40), min_size=1, max_size=4))
@settings(max_examples=50)
def test_fillings_are_what_a_plain_count_finds(happened: list[tuple[int, int, int]], ages: list[int]) -> None:
    window, key, age = (np.array([each[nth] for each in happened], np.int64) for nth in range(3))
    whole = np.array([20, 20, 10, 20, 20])
    fillings = Fillings(window, key, age, whole, {"double": np.full(len(age), 2.0)})
    counted = [each for each in happened if each[2] <= whole[each[0]]]
    places = sorted({(number, nth) for nth, number, _ in counted})
    for filled in fillings.at(ages):
        assert list(zip(filled.key.tolist(), filled.window.tolist(), strict=True)) == places
        for row, (number, nth) in enumerate(places):
            own = [old for at, who, old in counted if (at, who) == (nth, number)]
            assert filled.final[EVENTS][row] == len(own)
            assert filled.seen[EVENTS][row] == sum(old <= filled.age for old in own)
            assert filled.seen["double"][row] == 2 * sum(old <= filled.age for old in own)
        for number in range(3):
            past, _ = filled.past(EVENTS, number, 3)
            rows = [row for row, place in enumerate(places) if place[0] == number and place[1] < 3]
            assert past.final.tolist() == [
                filled.final[EVENTS][row] for row in rows if filled.seen[EVENTS][row]
            ]
