"""Summaries in columns: the timeline says of them what it says of summaries one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.model.partition_marks import SummaryColumns
from latecomer.model.strategies import Ascending, Bounded, Strategy, TickSummary
from latecomer.model.timeline import Timeline, TimelineRow

EVERY = 10
NAMES = ["", "b", "a", "é", "t7", "z"]
STRATEGIES = [
    Bounded("7us", every="10us"),
    Bounded("7us", every="10us", delays={"t7": "40us", "z": "0us"}, idle_after="60us"),
    Bounded("365000d", every="10us", idle_after="30us", on_idle="hold"),
    Ascending(every="10us", idle_after="30us"),
]


def in_columns(summaries: Sequence[TickSummary]) -> SummaryColumns:
    names = list(dict.fromkeys(summary.partition for summary in summaries))
    columns = (
        [summary.tick for summary in summaries],
        [names.index(summary.partition) for summary in summaries],
        [summary.events for summary in summaries],
        [summary.max_event_time for summary in summaries],
    )
    return SummaryColumns.of(EVERY, names, *(np.array(column, np.int64) for column in columns))


def batch(chance: Random, first: int) -> list[TickSummary]:
    """What some ticks brought, in any order; some of them may have been read before."""
    ticks = sorted({first + chance.choice((-3, 0, 1, 1, 2, 5, 9, 30)) for _ in range(chance.randrange(1, 9))})
    summaries = [
        TickSummary(
            tick,
            tick * EVERY,
            name,
            chance.randrange(1, 5),
            tick * EVERY - chance.choice((0, 3, 50, -900, 10**9)),
        )
        for tick in ticks
        for name in chance.sample(NAMES, chance.randrange(1, len(NAMES)))
    ]
    chance.shuffle(summaries)
    return summaries


def without_heads(rows: Sequence[TimelineRow]) -> list[TimelineRow]:
    return [replace(row, summaries=()) for row in rows]


@given(st.integers(0, 10**9), st.sampled_from(STRATEGIES), st.booleans())
@drawn(150)
def test_columns_and_heads_move_a_timeline_alike(seed: int, strategy: Strategy, named: bool) -> None:
    chance, first = Random(seed), 1000
    one_by_one, at_once = Timeline(strategy), Timeline(strategy)
    for _ in range(4):
        summaries = batch(chance, first)
        columns = in_columns(summaries)
        known: Mapping[str, bool] | None = None
        if named:
            known = {name: chance.random() < 0.3 for name in chance.sample([*NAMES, "unheard"], 4)}
        assert at_once.out_of_step(columns) == one_by_one.out_of_step(summaries)
        rows = at_once.extend(columns, known)
        assert without_heads(rows) == without_heads(one_by_one.extend(summaries, known))
        assert at_once.carry() == one_by_one.carry()
        assert at_once.holding() == one_by_one.holding()
        assert at_once == one_by_one
        first = max(summary.tick for summary in summaries)
        if chance.random() < 0.3:
            first += chance.randrange(12)
            assert at_once.heartbeat(first * EVERY) == one_by_one.heartbeat(first * EVERY)
    assert at_once.drain() == one_by_one.drain()


def test_columns_are_a_list_of_heads() -> None:
    summaries = [
        TickSummary(7, 70, "b", 2, 69),
        TickSummary(5, 50, "é", 1, 44),
        TickSummary(7, 70, "a", 3, 60),
    ]
    columns = in_columns(summaries)
    assert list(columns) == [summaries[1], summaries[2], summaries[0]]
    assert columns[-1] == summaries[0]
    assert columns.bounds == [0, 1, 3]
    assert list(columns.before(70)) == [summaries[1]]
    assert in_columns([]).bounds == [0]


@pytest.mark.parametrize("partitions", [8, 10_000])
def test_the_watermark_waits_for_the_slowest_of_many(partitions: int) -> None:
    """Each is one microsecond further than the one before it; a tick later all but the first have gone on."""
    ticks = np.repeat(np.array([100, 101, 102]), [partitions, partitions - 1, 1])
    nth = np.concatenate([np.arange(partitions), np.arange(1, partitions), [0]])
    latest = np.where(ticks == 100, 1000 + nth, 500_000)
    names = [f"p{each:05d}" for each in range(partitions)]
    columns = SummaryColumns.of(EVERY, names, ticks, nth, np.ones(len(nth), np.int64), latest)
    timeline = Timeline(Bounded("100us", every="10us"))
    first, second, third = timeline.extend(columns)
    assert (second.watermark, second.held_by, second.unheld) == (900, "p00000", 900 + partitions - 1)
    assert (third.watermark, third.held_by, third.unheld) == (900, "p00000", 499_900)
    assert [summary.partition for summary in timeline.open_summaries] == ["p00000"]
    assert first.held_by is None
