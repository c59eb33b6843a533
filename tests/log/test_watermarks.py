"""Events meet the watermark of their batch and tick."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pyarrow as pa
import pytest

from latecomer.errors import StoreError
from latecomer.log.timeline.keeper import Section, WatermarkRise
from latecomer.model.timeline import TimelineRow


def events(batches: Sequence[int], ticks: Sequence[int]) -> pa.Table:
    return pa.table({"batch": batches, "tick": ticks})


ROWS = [(1, TimelineRow(3, 50, 10)), (1, TimelineRow(4, 40, 20)), (2, TimelineRow(4, 60, 30))]
"""The clock of one tick is behind that of the tick before it."""


def test_an_event_meets_the_watermark_and_the_clock_of_its_batch_and_tick() -> None:
    found = Section(ROWS, before=WatermarkRise(0, 45)).watermarks
    some = events([2, 1, 1], [4, 4, 3])
    assert (found.over(some).tolist(), found.clock(some).tolist()) == ([30, 20, 10], [60, 50, 50])


@pytest.mark.parametrize("rows", [ROWS, ROWS[:2], []])
def test_an_event_of_an_unknown_tick_is_an_error(rows: Sequence[tuple[int, TimelineRow]]) -> None:
    with pytest.raises(StoreError, match="not on the timeline"):
        Section(rows).watermarks.over(events([1], [5]))


def test_a_task_is_sent_three_numbers_a_tick() -> None:
    ticks = [(1, TimelineRow(tick, tick, tick)) for tick in range(10_000)]
    assert len(pickle.dumps(Section(ticks).watermarks)) < 25 * len(ticks)
