"""Which events of a log came before, after their ids were forgotten."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from latecomer.log.logged_events import Logged, LogSplit, Repeated
from latecomer.log.repeated import repeated_by_hash, repeated_in
from spread_kit import Spread

SCHEMA = pa.schema(
    [("event_id", pa.string()), ("event_time", pa.timestamp("us", "UTC")), ("batch", pa.int64())]
)


def no_spark() -> None:
    raise AssertionError


@pytest.mark.parametrize("each", [1, 50, 1_000_000])
def test_events_that_came_again_are_found_in_buckets_of_any_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each: int
) -> None:
    """Of one id and one event time that came in several batches, all but those of the first batch came again."""
    monkeypatch.setattr("latecomer.log.repeated.IDS_PER_BUCKET", each)
    monkeypatch.setattr("latecomer.log.repeated.HASHES_AT_ONCE", each)
    chance, splits, first = Random(5), [], dict[tuple[str, int], int]()
    rows = [
        (chance.choice([f"id {chance.randrange(40)}", None]), chance.randrange(2), batch)
        for batch in range(6)
        for _ in range(30)
    ]
    for nth in range(3):
        columns = zip(*rows[nth::3], strict=True)
        table = pa.table([pa.array(list(column)) for column in columns], SCHEMA.names).cast(SCHEMA)
        pq.write_table(table, tmp_path / f"{nth}.parquet")
        splits.append(LogSplit([tmp_path / f"{nth}.parquet"], table.num_rows, SCHEMA))
    for name, at, batch in sorted(rows, key=lambda row: row[2]):
        if name is not None and batch <= 4:
            first.setdefault((name, at), batch)
    expected = [row for row in rows if row[0] is not None and first.get(row[:2], 9) < row[2] <= 4]
    assert expected
    by_tasks = repeated_in([*splits, LogSplit([], 0, SCHEMA)], 4, Spread(no_spark))  # type: ignore[arg-type]
    by_hash = repeated_by_hash(lambda: Logged(splits).parts(), len(rows), 4)
    for repeated in (by_tasks, by_hash):
        assert isinstance(repeated, Repeated)
        found = repeated.among(Logged(splits).table)
        times = found["event_time"].cast(pa.int64()).to_pylist()
        seen = [*zip(found["event_id"].to_pylist(), times, found["batch"].to_pylist(), strict=True)]
        assert sorted(seen) == sorted(expected)


def test_nothing_came_again(tmp_path: Path) -> None:
    assert repeated_in([LogSplit([], 0, SCHEMA)], 4, Spread(no_spark)) is None  # type: ignore[arg-type]
    assert repeated_by_hash(lambda: Logged([LogSplit([], 0, SCHEMA)]).parts(), 0, 4) is None


@pytest.mark.parametrize("each", [1, 1_000_000])
def test_events_that_came_again_are_counted(monkeypatch: pytest.MonkeyPatch, each: int) -> None:
    """An id that is used again at another event time is another event."""
    monkeypatch.setattr("latecomer.log.repeated.HASHES_AT_ONCE", each)
    rows = [
        ("a", 0, 0),
        ("b", 0, 0),
        ("a", 0, 1),
        (None, 0, 1),
        ("b", 1, 1),
        ("a", 0, 2),
        (None, 0, 2),
        ("b", 0, 3),
    ]
    log = pa.table([pa.array(list(column)) for column in zip(*rows, strict=True)], SCHEMA.names).cast(SCHEMA)
    repeated = repeated_by_hash(lambda: iter([log]), log.num_rows, 2)
    assert repeated is not None
    assert repeated.count == repeated.among(log).num_rows == 2
    assert repeated.left_out_of(log).num_rows == 6
