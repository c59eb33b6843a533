"""Who is late, what dropping them does, and whose clock is ahead: planted, and found."""

from __future__ import annotations

import numpy as np
import pytest

from latecomer.model.lateness.groups import BLOCKS, bias, jackknife, late_groups, skews, student


def counts(
    random: np.random.Generator, shares: list[float], each: int = 2_000
) -> tuple[np.ndarray, np.ndarray]:
    events = np.full((len(shares), BLOCKS), each, np.int64)
    late = np.array([random.binomial(each, share, BLOCKS) for share in shares], np.int64)
    return events, late


def test_the_group_that_is_late_more_often_is_named_and_no_other(random: np.random.Generator) -> None:
    (found,) = late_groups("device", ["ios", "web", "android"], *counts(random, [0.01, 0.01, 0.05]))
    assert found.value == "android"
    assert found.times == pytest.approx(5, rel=0.15)
    assert found.interval is not None
    assert found.interval.low < found.times < found.interval.high
    assert found.share_of_late == pytest.approx(5 / 7, abs=0.05)


def test_equal_groups_are_hardly_ever_named(random: np.random.Generator) -> None:
    named = sum(bool(late_groups("g", list("abcde"), *counts(random, [0.02] * 5))) for _ in range(200))
    # At 95 % for all groups of a column together: ten of 200 are expected.
    assert named <= 22


def test_one_bad_block_makes_no_group_late(random: np.random.Generator) -> None:
    events, late = counts(random, [0.01, 0.01])
    late[0, 3] = 900  # an outage hit one of them, once
    assert late_groups("g", ["a", "b"], events, late) == []


@pytest.mark.parametrize(("function", "expected"), [("count", -0.1), ("sum", -0.25), ("avg", 75 / 90 - 1)])
def test_the_bias_of_dropping_the_late(random: np.random.Generator, function: str, expected: float) -> None:
    # A tenth is late and each is worth two and a half times as much as the mean.
    each, late = np.full(BLOCKS, 100.0), random.normal(10, 1, BLOCKS)
    found = bias(function, each, late, np.full(BLOCKS, 1_000.0), late * 25)
    assert found is not None
    _, _, relative, interval = found
    assert relative == pytest.approx(expected, abs=0.02)
    assert interval is not None
    assert interval.low < expected < interval.high


def test_the_interval_holds_the_truth_as_often_as_it_says(random: np.random.Generator) -> None:
    held = 0
    for _ in range(300):
        late = random.binomial(500, 0.1, BLOCKS).astype(float)
        found = bias("count", np.full(BLOCKS, 500.0), late, np.zeros(BLOCKS), np.zeros(BLOCKS))
        assert found is not None
        assert found[3] is not None
        held += found[3].low <= -0.1 <= found[3].high
    assert 0.91 <= held / 300 <= 0.99


def test_a_mean_of_nothing_and_too_few_blocks_have_no_interval() -> None:
    assert bias("avg", *[np.zeros(3)] * 4) == (0.0, 0.0, None, None)
    assert jackknife(lambda block: 1.0, 2) is None


def test_students_quantiles() -> None:
    assert [round(student(0.95, freedom), 3) for freedom in (10, 19, 60)] == [2.228, 2.093, 2.0]
    assert student(0.999, 19) == pytest.approx(3.883, abs=0.02)


def test_a_clock_that_is_ahead() -> None:
    found = skews(["a", "b", "c"], np.array([10, 10, 10]), np.array([0, 4, 0]), np.array([200, -3_000, 100]))
    assert [(each.producer, each.negative, each.ahead, each.against_others) for each in found] == [
        ("b", 4, 3_000, 3_100)
    ]
