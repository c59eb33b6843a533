"""Advice: settings that keep what they promise on the history they were made from."""

from __future__ import annotations

import numpy as np
import pytest

from latecomer.model.durations import DAY, parse_duration
from latecomer.model.lateness.advice import (
    Wish,
    cautions,
    delay_for,
    future_for,
    idle_for,
    lateness_for,
    own_delays,
    rounded_up,
)
from latecomer.model.lateness.histogram import Histogram

SECOND = 1_000_000


def counted(durations: object) -> Histogram:
    found = Histogram()
    found.add(np.asarray(durations, np.int64))
    return found


def test_the_delay_is_the_percentile_rounded_up() -> None:
    behind = counted(np.arange(1, 100_001) * SECOND // 1_000)
    assert delay_for(behind, Wish())[0] == parse_duration("1m40s")
    delay, reason = delay_for(behind, Wish(0.5))
    assert delay == parse_duration("51s")  # the bin of 50 s reaches a little beyond
    assert reason.startswith("p50 of how far events come behind the newest of their partition is 50s")


def test_the_allowed_lateness_covers_what_the_delay_leaves(random: np.random.Generator) -> None:
    overdue = random.exponential(20 * SECOND, 10_000).astype(np.int64)
    events = 100_000
    lateness, reason = lateness_for(counted(overdue), events, 40 * SECOND, Wish())
    missed = np.count_nonzero(overdue >= 40 * SECOND + lateness)
    assert missed <= events * 0.001
    assert np.count_nonzero(overdue >= 40 * SECOND + lateness - 3 * SECOND) > events * 0.001, (
        "and hardly longer"
    )
    assert "p99.9" in reason


@pytest.mark.parametrize(("delay", "reason"), [("10m", "no event"), ("2m30s", "are on time without any")])
def test_no_allowed_lateness_is_needed_where_all_are_on_time(delay: str, reason: str) -> None:
    overdue = counted([200 * SECOND])
    lateness, outcome = lateness_for(overdue, 100_000, parse_duration(delay), Wish())
    assert lateness == 0
    assert reason in outcome


def test_who_comes_exactly_at_the_delay_is_late() -> None:
    """Times are whole seconds as a rule, and so are delays."""
    lateness, outcome = lateness_for(counted([9 * SECOND] * 80), 100_000, 9 * SECOND, Wish())
    assert (lateness, outcome) == (0, "99.92 % of the events are on time without any")


def test_one_event_is_one() -> None:
    assert future_for(counted([-5, 3]))[1].startswith("1 event is ahead of its arrival")
    assert future_for(counted([-5, -6]))[1].startswith("2 events are ahead of their arrival")


def test_partitions_that_differ_much_have_their_own(random: np.random.Generator) -> None:
    behind = {
        "slow": counted(random.exponential(60 * SECOND, 5_000)),
        "usual": counted(random.exponential(10 * SECOND, 5_000)),
        "rare": counted([1_000 * SECOND] * 5),
    }
    assert set(own_delays(45 * SECOND, behind, Wish())) == {"slow"}


def test_idleness_is_longer_than_any_usual_silence() -> None:
    silences = {"a": np.full(1_000, SECOND), "b": np.full(1_000, 40 * SECOND)}
    idle, reason = idle_for(silences, SECOND)
    assert idle == 80 * SECOND
    assert "silences of b" in reason
    assert idle_for({"a": np.full(5, SECOND)}, SECOND)[0] is None


def test_clocks_that_are_ahead_set_max_future() -> None:
    assert future_for(counted([SECOND] * 10))[0] == parse_duration("5m")
    ahead = np.concatenate([np.full(9_990, SECOND), np.full(10, -90 * SECOND)])
    assert future_for(counted(ahead))[0] == parse_duration("3m")


def test_a_short_history_is_said() -> None:
    outcome = cautions(counted([1, 2, 3]), [], 3_600 * SECOND, 600 * SECOND, Wish())
    assert outcome == [
        "p99 rests on 3 events and needs 1,000: take it as a guess",
        "p99.9 rests on 3 events and needs 10,000: take it as a guess",
        "the history is 1h long: what happens once a day or a week is not in it",
        "the history is shorter than 20 times the advised delay of 10m",
    ]


@pytest.mark.parametrize(
    ("scales", "outcome"),
    [
        ([5] * 10, None),
        (list(range(5, 25, 2)), "the history drifts"),
        ([5, 5, 5, 5, 60, 60, 5, 5, 5, 5], "lateness varies"),
    ],
)
def test_a_history_that_drifts_is_said(
    random: np.random.Generator, scales: list[int], outcome: str | None
) -> None:
    slices = [counted(random.exponential(scale * SECOND, 20_000)) for scale in scales]
    found = cautions(counted(random.exponential(SECOND, 20_000)), slices, 9 * DAY, SECOND, Wish())
    assert [each.split(":")[0] for each in found] == ([outcome] if outcome else [])


def test_what_is_rounded_up_is_not_less_and_not_much_more(random: np.random.Generator) -> None:
    for duration in random.integers(1, 30 * DAY, 500).tolist():
        assert duration <= rounded_up(duration) <= max(duration * 1.2 + SECOND, 100_000)
