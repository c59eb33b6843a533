"""Which files are merged: pure rules over the files of a table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.upkeep.upkeep_kit import Days
from latecomer.engine.upkeep import plan
from latecomer.engine.upkeep.file_merging import merge, plan_merge
from latecomer.engine.upkeep.plan import Group, arranged, clustered, complete, final, joined, parts
from latecomer.model.durations import DAY, UNITS, to_moment
from latecomer.store.delta.data_files import DataFile, batches_of

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


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty rows are enough."""
    monkeypatch.setattr(plan, "ENOUGH", 20)


def test_days_that_follow_one_another_are_one_group_up_to_a_size(small: None) -> None:
    files = [file(0, 0.1), file(1, 0.9), file(2, 1.1), file(3, 2.2), file(4, 7.1)]
    assert groups(files) == [[0, 1], [2, 3]]


def test_a_file_that_spans_days_ties_them(small: None) -> None:
    assert groups([file(0, 0.1), file(1, 0.9, 1.1), file(2, 1.5), file(3, 7)]) == [[0, 1, 2]]


def test_a_single_file_is_left_alone(small: None) -> None:
    assert groups([file(0, 0.1, 30)]) == []


def test_what_one_merge_has_made_of_enough_rows_is_left_alone(small: None) -> None:
    made = [merged(0, 3, 0.1, nth=0), merged(0, 3, 0.5, nth=1)]
    assert groups([*made, file(4, 0.3), file(5, 0.6)]) == [[4, 5]]
    assert groups([*made, file(4, 0.3)]) == []


def test_what_came_since_is_merged_with_less_than_that(small: None) -> None:
    assert groups([merged(0, 3, 0.1), file(4, 0.5)]) == [[0, 4]]


def arrangement(files: Sequence[DataFile], minutes: dict[int, int], most: int) -> list[int] | None:
    """How many rows each file gets that a group becomes."""
    found = arranged(Group(files, "event_time"), minutes, most)
    if found is None:
        return None
    return [sum(n for minute, n in minutes.items() if low <= minute < high) for low, high in found.parts]


def test_quiet_days_share_a_file_and_a_busy_day_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "FULL", 30)
    days = {nth * DAY: rows for nth, rows in enumerate([10, 10, 10, 40, 5, 5])}
    assert arrangement([file(nth) for nth in range(20)], days, 50) == [30, 40, 10]


def test_there_are_never_more_files_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "FULL", 1)
    days = {nth * DAY: 10 for nth in range(8)}
    assert arrangement([file(0), file(1)], days, 50) == [40, 40]
    assert arrangement([file(0), file(1)], days, 30) is None  # so few files would be too large


def test_merged_files_are_written_again_only_to_become_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "FULL", 30)
    days = {nth * DAY: 10 for nth in range(6)}
    assert arrangement([merged(0, 3, 0.1), merged(4, 5, 3)], days, 50) is None
    assert arrangement([merged(0, 3, nth, nth=nth) for nth in range(6)], days, 50) == [30, 30]


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


@given(st.dictionaries(st.integers(-9000, 9000), st.integers(1, 40), min_size=1), st.integers(1, 50))
def test_parts_hold_every_minute_once_and_not_too_much(counts: dict[int, int], full: int) -> None:
    minutes = {minute * MINUTE: count for minute, count in counts.items()}
    found = parts(minutes, full, 50)
    for minute in minutes:
        assert sum(start <= minute < end for start, end in found) == 1
    for start, end in found:
        held = {minute: count for minute, count in minutes.items() if start <= minute < end}
        assert sum(held.values()) <= 50 or len(held) == 1
        days = sorted({minute // DAY for minute in held})
        before_last_day = sum(count for minute, count in held.items() if minute // DAY < days[-1])
        assert before_last_day < full  # else it had ended with its day
    assert found == sorted(found)


def test_wide_rows_make_smaller_files(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    events = days.store.events
    (group,) = clustered(events.files(), "event_time")
    planned = plan_merge(events, group)
    assert planned is not None
    assert len(planned.parts) == 1
    plain = sum(
        pq.read_metadata(events.root / each.path).row_group(0).total_byte_size for each in group.files
    )
    monkeypatch.setattr(plan, "MOST_BYTES", plain // 4)
    planned = plan_merge(events, group)
    assert planned is not None
    assert len(planned.parts) > 4
    written = merge(events, planned)
    assert len(written) == len(planned.parts) <= len(group.files)
    assert sum(each.rows for each in events.files()) == 72
