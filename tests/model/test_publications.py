"""When a batch is published, and what was known at a moment: batch by batch, as one would count it by hand."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.publications import lag, last_known, publication_time
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME

CLOCKS = st.lists(st.integers(-3, 9), min_size=1, max_size=8)
"""What the machine's clock says at each publication; it may be set back."""


def published(clocks: list[int]) -> list[int]:
    times: list[int] = []
    for now in clocks:
        times.append(publication_time(times[-1] if times else None, now))
    return times


@given(CLOCKS)
def test_a_stores_clock_never_goes_back_and_goes_with_the_machines_where_that_goes_on(
    clocks: list[int],
) -> None:
    assert published(clocks) == list(accumulate(clocks, max))


@given(CLOCKS, st.integers(-4, 10))
def test_a_moment_knows_the_batches_that_had_been_published_by_then_and_no_other(
    clocks: list[int], moment: int
) -> None:
    times = published(clocks)
    last = last_known(moment, dict(enumerate(times)), len(times) - 1)
    assert last is not None
    assert [batch <= last for batch in range(len(times))] == [at <= moment for at in times]


@given(CLOCKS, st.integers(-4, 10), st.sets(st.integers(0, 7)))
def test_where_times_are_lost_the_answer_is_the_same_or_none(
    clocks: list[int], moment: int, lost: set[int]
) -> None:
    whole = dict(enumerate(published(clocks)))
    left = {batch: at for batch, at in whole.items() if batch not in lost}
    complete = len(whole) - 1
    assert last_known(moment, left, complete) in (None, last_known(moment, whole, complete))


@given(CLOCKS, st.integers(-4, 10))
def test_a_batch_that_is_not_complete_is_not_known(clocks: list[int], moment: int) -> None:
    times = dict(enumerate(published(clocks)))
    last = last_known(moment, times, 0)
    assert last in (-1, 0)


@pytest.mark.parametrize(
    ("watermark", "clock", "behind"),
    [
        (60, 100, 40),
        (100, 60, -40),
        (60, None, None),
        (60, BEGIN_OF_TIME, None),
        (BEGIN_OF_TIME, 100, None),
        (END_OF_TIME, 100, None),
    ],
)
def test_how_far_a_watermark_is_behind_a_clock(watermark: int, clock: int | None, behind: int | None) -> None:
    assert lag(watermark, clock) == behind
