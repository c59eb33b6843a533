from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from latecomer.errors import SinkError
from sink.sink_kit import SHAPE, apply, crashing, insert, lines_of, opened, retract, shape_of, table_of

KINDS = pytest.mark.parametrize("kind", ["parquet", "jsonl"])


def visible(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir() if not file.name.startswith("."))


@KINDS
def test_each_batch_is_one_file(kind: str, tmp_path: Path) -> None:
    sink = opened(kind, tmp_path)
    apply(sink, 0, insert(0, "chai", 0))
    apply(sink, 12, insert(0, "chai", 1))
    assert visible(tmp_path) == [f"batch-0000000000.{kind}", f"batch-0000000012.{kind}"]
    assert sink.last_batch() == 12


@KINDS
def test_an_empty_batch_writes_no_file(kind: str, tmp_path: Path) -> None:
    sink = opened(kind, tmp_path)
    apply(sink, 0)
    assert visible(tmp_path) == []
    assert sink.last_batch() == -1


def test_parquet_holds_the_panes_as_published(tmp_path: Path) -> None:
    panes = table_of(0, [insert(0, "chai", 0), retract(0, "chai", 0), insert(0, None, 1)])
    opened("parquet", tmp_path).apply(0, panes)
    assert pq.read_table(tmp_path / "batch-0000000000.parquet").equals(panes)


def test_jsonl_holds_the_panes_as_published(tmp_path: Path) -> None:
    sink = opened("jsonl", tmp_path)
    apply(sink, 7, retract(0, "chäi", 0), insert(0, "chäi", 1, Decimal(12500), 3))
    first, second = lines_of(tmp_path)
    assert (first["op"], first["sequence"]) == ("retract", 0)
    assert second == {
        "window_start": "2026-04-25T14:00:00Z",
        "window_end": "2026-04-25T14:01:00Z",
        "merchant": "chäi",
        "paise": 12500,
        "payments": 3,
        "sequence": 1,
        "timing": "LATE",
        "op": "insert",
        "batch": 7,
        "fired_at": "2026-04-25T14:10:00Z",
    }


def test_jsonl_rounds_nothing_and_stays_json(tmp_path: Path) -> None:
    kinds = {
        "large": (pa.decimal128(38, 0), Decimal(10**30 + 1), 10**30 + 1),
        "money": (pa.decimal128(18, 2), Decimal("12.00"), "12.00"),
        "tiny": (pa.decimal128(18, 9), Decimal("0.000000001"), "0.000000001"),
        "yes": (pa.bool_(), True, True),
        "day": (pa.date32(), date(2026, 4, 25), "2026-04-25"),
        "local": (pa.timestamp("us"), 1, "1970-01-01T00:00:00.000001"),
        "share": (pa.float64(), 0.1, 0.1),
        "not_a_number": (pa.float64(), float("nan"), "NaN"),
        "endless": (pa.float64(), float("-inf"), "-Infinity"),
        "nothing": (pa.int64(), None, None),
        "bytes": (pa.binary(), b"ab", "YWI="),
        "lines": (pa.string(), "a\nb", "a\nb"),
    }
    shape = shape_of({}, {name: kind for name, (kind, _, _) in kinds.items()})
    apply(
        opened("jsonl", tmp_path, shape),
        0,
        insert(0, (), 0, *(value for _, value, _ in kinds.values()), shape=shape),
    )
    (row,) = lines_of(tmp_path)
    assert {name: row[name] for name in kinds} == {name: written for name, (_, _, written) in kinds.items()}


@KINDS
def test_a_batch_that_is_there_is_not_written_again(kind: str, tmp_path: Path) -> None:
    sink = opened(kind, tmp_path)
    apply(sink, 3, insert(0, "chai", 0))
    before = (tmp_path / f"batch-0000000003.{kind}").read_bytes()
    apply(sink, 3, insert(0, "dosa", 0))
    apply(sink, 2, insert(0, "dosa", 0))
    assert visible(tmp_path) == [f"batch-0000000003.{kind}"]
    assert (tmp_path / f"batch-0000000003.{kind}").read_bytes() == before


@KINDS
def test_a_crash_before_the_file_is_whole_leaves_it_unseen(kind: str, tmp_path: Path) -> None:
    sink = opened(kind, tmp_path)
    with crashing(kind, 0):
        apply(sink, 0, insert(0, "chai", 0), insert(1, "chai", 0))
    assert visible(tmp_path) == []
    assert opened(kind, tmp_path).last_batch() == -1
    apply(opened(kind, tmp_path), 0, insert(0, "chai", 0))
    assert visible(tmp_path) == [f"batch-0000000000.{kind}"]
    assert not list(tmp_path.glob("*.tmp"))


@KINDS
def test_other_files_in_the_folder_are_no_progress(kind: str, tmp_path: Path) -> None:
    for name in (f"batch-9.{kind}", f".batch-0000000009.{kind}.tmp", "batch-0000000009.csv", "notes.txt"):
        (tmp_path / name).write_text("")
    assert opened(kind, tmp_path).last_batch() == -1


@KINDS
def test_batch_numbers_beyond_ten_digits_still_count(kind: str, tmp_path: Path) -> None:
    sink = opened(kind, tmp_path)
    apply(sink, 12_345_678_901, insert(0, "chai", 0))
    assert sink.last_batch() == 12_345_678_901


def refused_opening(kind: str, path: Path, **settings: object) -> str:
    with pytest.raises(SinkError) as caught:
        opened(kind, path, **settings)  # type: ignore[arg-type]
    return str(caught.value)


@KINDS
def test_the_folder_of_another_pipeline_is_refused(kind: str, tmp_path: Path) -> None:
    """Its files would pass for our progress, and our first batches would be skipped."""
    opened(kind, tmp_path)
    assert refused_opening(kind, tmp_path, pipeline="cards") == (
        f"{kind} sink {tmp_path}: the folder belongs to output minute_totals of pipeline upi as {kind}; "
        "give the sink another path. Nothing is lost: the next run catches this sink up."
    )


@KINDS
def test_a_folder_with_other_columns_is_refused(kind: str, tmp_path: Path) -> None:
    opened(kind, tmp_path)
    other = shape_of({"merchant": pa.string()}, {"paise": pa.int64()})
    assert refused_opening(kind, tmp_path, shape=other) == (
        f"{kind} sink {tmp_path}: the files in it have other columns (with payments, paise decimal128(28, 0) "
        "instead of int64); move the folder away, or give the sink another path. "
        "Nothing is lost: the next run catches this sink up."
    )


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", json.dumps({"columns": 3}), '{"pipeline":1,"output":1,"format":1,"columns":3}']
)
def test_an_unreadable_owner_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / ".latecomer.json").write_text(text)
    assert refused_opening("jsonl", tmp_path) == (
        f"jsonl sink {tmp_path}: .latecomer.json in it cannot be read; delete that file. "
        "Nothing is lost: the next run catches this sink up."
    )


@KINDS
def test_a_file_in_place_of_the_folder_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "changes"
    path.write_text("")
    assert refused_opening(kind, path) == (
        f"{kind} sink {path}: the folder cannot be used ([Errno 17] File exists: '{path}'); make it a folder "
        "you may write to, or give the sink another path. "
        "Nothing is lost: the next run catches this sink up."
    )


@KINDS
def test_a_folder_that_goes_away_is_named_with_the_batch(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "changes"
    sink = opened(kind, path)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(SinkError) as caught:
        sink.apply(12, table_of(12, [insert(0, "chai", 0)], SHAPE))
    text = str(caught.value)
    assert text.startswith(f"{kind} sink {path}: the folder is gone; bring it back")
    assert text.endswith("Nothing is lost: the next run continues with batch 12.")
