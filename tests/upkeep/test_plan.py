"""Which files are merged: pure rules over the files of a table."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.durations import DAY, UNITS, to_moment
from latecomer.store.table import DataFile, batches_of
from latecomer.upkeep import plan
from latecomer.upkeep.merging import merge
from latecomer.upkeep.plan import clustered, complete, final, joined, parts
from upkeep.upkeep_kit import Days

MINUTE = UNITS["m"]


def file(
    batch: int | str, low: float = 0, high: float | None = None, size: int = 10, kind: str = "", nth: int = 0
) -> DataFile:
    """A file of a batch, or of `AtoB`, with event times from a day to another."""
    name = f"{batch:010d}" if isinstance(batch, int) else batch
    low, high = int(low * DAY), int((low if high is None else high) * DAY)
    times = {"event_time": to_moment(low), "window_end": to_moment(high)}
    upper = {"event_time": to_moment(high), "window_end": to_moment(high)}
    return DataFile(f"data/{name}-token{kind and '-' + kind}/{nth}.parquet", size, size, times, upper)


def merged(first: int, last: int, low: float, **more: int) -> DataFile:
    return file(f"{first:010d}to{last:010d}", low, **more)


def groups(files: Sequence[DataFile]) -> list[list[int]]:
    return [[batches_of(each)[0] for each in group.files] for group in clustered(files, "event_time")]


def test_files_of_one_day_are_one_group() -> None:
    assert groups([file(0, 0.1), file(1, 0.9), file(2, 1.1), file(3, 1.2)]) == [[0, 1], [2, 3]]


def test_a_file_that_spans_days_ties_them() -> None:
    assert groups([file(0, 0.1), file(1, 0.9, 1.1), file(2, 1.5), file(3, 7)]) == [[0, 1, 2]]


def test_a_file_that_spans_days_is_cut_even_if_it_is_alone() -> None:
    (group,) = clustered([file(1, 0.9, 2.1)], "event_time")
    assert group.expected == 3


def test_a_single_file_of_a_day_is_left_alone() -> None:
    assert groups([file(0, 0.1), file(1, 1.1)]) == []


def test_what_one_merge_has_made_is_left_alone() -> None:
    assert groups([merged(0, 3, 0.1, nth=0), merged(0, 3, 0.5, nth=1), merged(2, 5, 1.5)]) == []


def test_what_came_since_is_merged_with_it() -> None:
    assert groups([merged(0, 3, 0.1), file(4, 0.5)]) == [[0, 4]]


def test_a_large_file_of_a_day_is_not_written_again() -> None:
    large = merged(0, 3, 0.1, size=plan.SETTLED)
    assert groups([large, file(4, 0.5), file(5, 0.6)]) == [[4, 5]]
    assert groups([large, file(4, 0.5)]) == []


def test_a_file_without_bounds_is_left_alone() -> None:
    assert groups([DataFile("data/0000000000-x/0.parquet", 1, 1), file(1, 0.1), file(2, 0.1)]) == [[1, 2]]


def test_only_files_of_complete_batches_are_touched() -> None:
    files = [file(0), file(1), merged(0, 2, 0.1), merged(0, 3, 0.1), file(3)]
    assert [batches_of(each)[-1] for each in complete(files, 2)] == [0, 1, 2]


def test_only_panes_that_late_events_cannot_reach_are_touched() -> None:
    files = [file(0, 0, 1), file(1, 0, 2), DataFile("data/0000000002-x/0.parquet", 1, 1)]
    assert [batches_of(each)[0] for each in final(files, DAY)] == [0]


def test_other_tables_are_joined_batch_after_batch_and_kind_by_kind() -> None:
    files = [file(2), file(0), file(1, kind="waiting"), file(3, kind="waiting"), file(4, kind="told")]
    assert [[batches_of(each)[0] for each in group.files] for group in joined(files)] == [[0, 2], [1, 3]]


def test_files_are_joined_up_to_a_size() -> None:
    half = plan.SETTLED - 1
    files = [file(0, size=half), file(1, size=half), file(2, size=half), file(3, size=plan.SETTLED), file(4)]
    assert [[batches_of(each)[0] for each in group.files] for group in joined(files)] == [[0, 1]]


@given(st.dictionaries(st.integers(-3000, 3000), st.integers(1, 40), min_size=1))
def test_parts_hold_every_minute_once_within_a_day_and_not_too_much(counts: dict[int, int]) -> None:
    minutes = {minute * MINUTE: count for minute, count in counts.items()}
    found = parts(minutes, 50)
    for minute in minutes:
        assert sum(start <= minute < end for start, end in found) == 1
    for start, end in found:
        assert start // DAY == (end - 1) // DAY
        held = [count for minute, count in minutes.items() if start <= minute < end]
        assert sum(held) <= 50 or len(held) == 1
    assert found == sorted(found)


def test_wide_rows_make_smaller_files(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MOST_BYTES", 1)  # a row is more than that
    events = days.store.events
    (group,) = clustered(events.files(), "event_time")
    assert {each.rows for each in merge(events, group)} == {1, 2}  # as many as share a minute
    assert sum(each.rows for each in events.files()) == 72
    assert clustered(events.files(), "event_time") == []
