"""Histograms of durations: known distributions recovered, percentiles within the width of a bin."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.lateness.histogram import COARSE, FINE, PERCENTILES, Histogram, bin_of, elbow_of, top_of

SECOND = 1_000_000


def counted(durations: object, bits: int = FINE) -> Histogram:
    found = Histogram(bits)
    found.add(np.asarray(durations, np.int64))
    return found


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=60), st.sampled_from(PERCENTILES))
def test_a_percentile_is_never_too_small_and_hardly_too_large(durations: list[int], share: float) -> None:
    exact = int(np.quantile(np.array(durations), share, method="inverted_cdf"))
    found = counted(durations).quantile(share)
    assert exact <= found <= exact + abs(exact) / 2**FINE


@given(st.integers(0, 2**52), st.sampled_from([FINE, COARSE]))
def test_a_duration_lies_in_its_bin(duration: int, bits: int) -> None:
    (nth,) = bin_of(np.array([duration]), bits)
    low, high = top_of(np.array([nth - 1, nth]), bits)
    assert nth == 0 or low < duration
    assert duration <= high


def test_counting_in_parts_is_counting_at_once(random: np.random.Generator) -> None:
    durations = random.normal(0, 5 * SECOND, 1_000).astype(np.int64)
    whole, parts = counted(durations), counted(durations[:300])
    parts.add(durations[300:])
    assert whole.quantiles() == parts.quantiles()
    assert (whole.least, whole.most, whole.negative) == (parts.least, parts.most, parts.negative)
    assert sum(count for *_, count in whole.bars()) == whole.count == 1_000


def test_bars_are_few_and_side_by_side(random: np.random.Generator) -> None:
    bars = counted(np.concatenate([[-5, 0, 0], random.pareto(1.2, 5_000) * SECOND])).bars(20)
    assert len(bars) <= 22
    assert all(low <= high for low, high, _ in bars)
    assert all(before[1] < after[0] for before, after in pairwise(bars))
    assert sum(count for *_, count in bars) == 5_003


@pytest.mark.parametrize("tau", [0.05, 6, 4_000])
def test_an_exponential_delay_is_recovered(random: np.random.Generator, tau: float) -> None:
    found = counted(random.exponential(tau * SECOND, 400_000))
    for share in (0.5, 0.9, 0.99, 0.999):
        assert found.quantile(share) == pytest.approx(-np.log(1 - share) * tau * SECOND, rel=0.06)
    elbow = elbow_of(found)
    assert elbow is not None
    # The distance of 1 - exp(-x) to the chord up to R is largest at ln R: R is ln 10,000, cut off at 0.9999.
    reach = np.log(10_000)
    assert elbow.delay == pytest.approx(np.log(reach) * tau * SECOND, rel=0.1)
    assert elbow.low < elbow.delay < elbow.high < 4 * elbow.low
    assert elbow.sharpness == pytest.approx(1 - 1 / reach - np.log(reach) / reach, abs=0.03)


def test_an_even_spread_has_no_elbow(random: np.random.Generator) -> None:
    assert elbow_of(counted(random.uniform(0, 60 * SECOND, 100_000))) is None


def test_a_corner_is_found(random: np.random.Generator) -> None:
    quick = random.uniform(0, 2 * SECOND, 97_000)
    slow = random.uniform(50 * SECOND, 60 * SECOND, 3_000)
    elbow = elbow_of(counted(np.concatenate([quick, slow])))
    assert elbow is not None
    assert elbow.delay == pytest.approx(2 * SECOND, rel=0.02)
    assert elbow.sharpness > 0.9
    assert elbow.completeness == pytest.approx(0.97, abs=0.001)


def test_a_heavy_tail_bends_where_its_slope_is_that_of_the_chord(random: np.random.Generator) -> None:
    # Pareto, 1 - (1 + x)^-a: the slope a (1 + x)^-(a + 1) is that of the chord, 1 / reach.
    shape = 1.5
    found = counted(random.pareto(shape, 1_000_000) * SECOND)
    reach = found.quantile(0.9999) / SECOND
    elbow = elbow_of(found)
    assert elbow is not None
    assert elbow.delay / SECOND == pytest.approx((shape * reach) ** (1 / (shape + 1)) - 1, rel=0.15)


@pytest.mark.parametrize("durations", [[], [0], [0, 0, 0], [5, 5], [-3, -2, -1]])
def test_too_little_has_no_elbow(durations: list[int]) -> None:
    assert elbow_of(counted(durations)) is None
