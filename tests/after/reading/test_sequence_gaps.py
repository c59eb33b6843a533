"""The numbers of producers against plain sets: what lies between the smallest and the largest and was not seen."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.after.reading import sequence_gaps
from latecomer.after.reading.sequence_gaps import Gaps, SeenNumbers, gaps_between

LEAST, MOST = -(2**63), 2**63 - 1
ROW = st.tuples(
    st.integers(0, 2),  # the producer
    st.one_of(st.integers(-5, 25), st.integers(MOST - 3, MOST), st.integers(LEAST, LEAST + 3)),
    st.integers(0, 9),  # when it arrived
)
Rows = list[tuple[int, int, int]]


def seen_in(parts: list[Rows]) -> SeenNumbers:
    seen = SeenNumbers()
    for rows in parts:
        producers, counted, arrived = (np.array([row[nth] for row in rows], np.int64) for nth in range(3))
        seen.add(producers, counted, _happened(producers, counted), arrived)
    return seen


def _happened(producers: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """An event time that tells which row it is of."""
    return producers * 1000 + counted % 100


def in_ranges(missing: list[int]) -> list[tuple[int, int]]:
    placed = [
        [number for _, number in group] for _, group in groupby(enumerate(missing), lambda e: e[1] - e[0])
    ]
    return [(group[0], group[-1]) for group in placed]


def outcome_of(gaps: Gaps) -> list[tuple[int, int, int]]:
    return list(zip(gaps.producer.tolist(), gaps.first.tolist(), gaps.last.tolist(), strict=True))


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_gaps, "PENDING", 4)


SMALL = st.tuples(st.integers(0, 2), st.integers(-5, 25), st.integers(0, 9))


@given(st.lists(st.lists(SMALL, max_size=8), max_size=6))
def test_a_gap_is_what_the_sets_lack(parts: list[Rows]) -> None:
    rows = [row for part in parts for row in part]
    wanted = []
    for producer in sorted({row[0] for row in rows}):
        found = {row[1] for row in rows if row[0] == producer}
        lacking = sorted(set(range(min(found), max(found) + 1)) - found)
        wanted += [(producer, *ends) for ends in in_ranges(lacking)]
    assert outcome_of(gaps_between(seen_in(parts).intervals())) == wanted


@given(st.lists(st.lists(ROW, max_size=8), max_size=6))
def test_a_gap_says_what_is_around_it(parts: list[Rows]) -> None:
    rows = [row for part in parts for row in part]
    gaps = gaps_between(seen_in(parts).intervals())
    for nth, (producer, first, last) in enumerate(outcome_of(gaps)):
        of_it = [row for row in rows if row[0] == producer]
        assert not [row for row in of_it if first <= row[1] <= last]
        before, after = ([row for row in of_it if row[1] == beside] for beside in (first - 1, last + 1))
        assert before
        assert after
        assert gaps.missing[nth] == last - first + 1
        assert gaps.arrived_before[nth] == min(row[2] for row in before)
        assert gaps.arrived_after[nth] == min(row[2] for row in after)
        assert gaps.happened_before[nth] == producer * 1000 + (first - 1) % 100
        assert gaps.happened_after[nth] == producer * 1000 + (last + 1) % 100
        assert gaps.since[nth] == min(row[2] for row in of_it if row[1] > last)


@given(st.lists(st.lists(ROW, max_size=8), max_size=6))
def test_every_number_is_in_one_interval(parts: list[Rows]) -> None:
    found = seen_in(parts).intervals()
    ends = list(zip(found.producer.tolist(), found.first.tolist(), found.last.tolist(), strict=True))
    assert ends == sorted(ends)
    for producer, number, _ in (row for part in parts for row in part):
        assert len([1 for who, first, last in ends if who == producer and first <= number <= last]) == 1


def test_a_million_numbers_in_order_are_one_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_gaps, "PENDING", 50_000)
    seen = SeenNumbers()
    for start in range(0, 1_000_000, 50_000):
        counted = np.random.default_rng(start).permutation(np.arange(start, start + 50_000))
        seen.add(counted % 3, counted // 3, counted, counted)
        assert len(seen._intervals) <= 3
    assert gaps_between(seen.intervals()).producer.size == 0
