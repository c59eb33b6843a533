from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from latecomer.errors import SinkError
from latecomer.model.panes import Pane
from sink.sink_kit import SHAPE, apply, insert, opened, retract, rows_of_delta, shape_of


def history(path: Path) -> list[str]:
    return [commit["operation"] for commit in DeltaTable(str(path)).history()]


def files(path: Path) -> set[str]:
    return set(DeltaTable(str(path)).file_uris())


def test_each_batch_is_one_commit_that_carries_its_number(tmp_path: Path) -> None:
    sink = opened("delta", tmp_path)
    apply(sink, 4, insert(0, "chai", 0), insert(1, "chai", 0))
    apply(sink, 7, insert(0, "chai", 1), retract(1, "chai", 0), insert(2, "chai", 0))
    assert history(tmp_path) == ["MERGE", "WRITE", "CREATE TABLE"]
    assert DeltaTable(str(tmp_path)).transaction_version("latecomer:upi:minute_totals") == 7


def test_windows_never_seen_before_are_appended(tmp_path: Path) -> None:
    sink = opened("delta", tmp_path)
    apply(sink, 0, insert(0, "chai", 0))
    before = files(tmp_path)
    apply(sink, 1, insert(1, "chai", 0))
    assert history(tmp_path)[0] == "WRITE"
    assert files(tmp_path) > before


def test_new_keys_of_a_known_window_are_appended(tmp_path: Path) -> None:
    sink = opened("delta", tmp_path)
    apply(sink, 0, insert(0, "chai", 0))
    apply(sink, 1, insert(0, "dosa", 0))
    assert history(tmp_path)[0] == "WRITE"
    assert len(rows_of_delta(tmp_path)) == 2


def test_a_merge_rewrites_only_the_files_of_its_windows(tmp_path: Path) -> None:
    sink = opened("delta", tmp_path)
    for window in range(4):
        apply(sink, window, insert(window, "chai", 0))
    before = files(tmp_path)
    apply(sink, 4, insert(1, "chai", 1), insert(90, "chai", 0))
    assert len(before - files(tmp_path)) == 1
    assert len(rows_of_delta(tmp_path)) == 5


def test_a_batch_that_changes_nothing_still_counts_as_applied(tmp_path: Path) -> None:
    sink = opened("delta", tmp_path)
    apply(sink, 0, insert(0, "chai", 3))
    before = files(tmp_path)
    apply(sink, 1, insert(0, "chai", 2))
    assert sink.last_batch() == 1
    assert files(tmp_path) == before


def test_two_sinks_do_not_apply_one_batch_twice(tmp_path: Path) -> None:
    """A run that was thought dead and comes back finds the batch applied."""
    one, other = opened("delta", tmp_path), opened("delta", tmp_path)
    apply(one, 0, insert(0, "chai", 0))
    apply(other, 0, insert(0, "chai", 0))
    assert len(rows_of_delta(tmp_path)) == 1


@pytest.mark.parametrize("panes", [[insert(1, "chai", 0)], [insert(0, "chai", 1)]], ids=["append", "merge"])
def test_two_sinks_in_a_race_do_not_apply_one_batch_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, panes: list[Pane]
) -> None:
    one, other = opened("delta", tmp_path), opened("delta", tmp_path)
    apply(one, 0, insert(0, "chai", 0))

    def overtaken(name: str, batch: int) -> None:
        monkeypatch.undo()
        apply(other, 1, *panes)

    monkeypatch.setattr("latecomer.sink.delta.failpoint", overtaken)
    with pytest.raises(SinkError) as refusal:
        apply(one, 1, *panes)
    text = str(refusal.value)
    assert text.startswith(f"delta sink {tmp_path}: another writer was faster (")
    assert text.endswith(
        "); let only one run write to it. Nothing is lost: the next run continues with batch 1."
    )
    assert len(rows_of_delta(tmp_path)) == len({row["window_start"] for row in rows_of_delta(tmp_path)})


def test_a_table_with_other_columns_is_refused(tmp_path: Path) -> None:
    opened("delta", tmp_path)
    other = shape_of({"merchant": pa.string()}, {"paise": pa.string(), "payers": pa.int64()})
    with pytest.raises(SinkError) as refusal:
        opened("delta", tmp_path, other)
    assert str(refusal.value) == (
        f"delta sink {tmp_path}: the Delta table there has other columns (without payers, with payments, "
        "paise decimal(28,0) instead of string); move it away, or give the "
        "sink another path. Nothing is lost: the next run catches this sink up."
    )


def test_a_table_of_another_output_is_refused(tmp_path: Path) -> None:
    opened("delta", tmp_path)
    with pytest.raises(SinkError) as refusal:
        opened("delta", tmp_path, pipeline="cards")
    assert str(refusal.value) == (
        f"delta sink {tmp_path}: the Delta table there belongs to output minute_totals of pipeline upi; "
        "give the sink another path. Nothing is lost: the next run catches this sink up."
    )


def test_a_table_made_by_the_user_is_taken(tmp_path: Path) -> None:
    write_deltalake(tmp_path, SHAPE.standing.empty_table(), name="totals")
    apply(opened("delta", tmp_path), 0, insert(0, "chai", 0))
    assert len(rows_of_delta(tmp_path)) == 1


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "totals"
    path.write_text("not a folder")
    with pytest.raises(SinkError) as refusal:
        opened("delta", path)
    text = str(refusal.value)
    assert text.startswith(f"delta sink {path}: the Delta table cannot be used (")
    assert text.endswith(
        "); make the folder readable and writable, or give the sink another path. "
        "Nothing is lost: the next run catches this sink up."
    )
    assert "\n" not in text


def test_a_table_that_goes_away_is_named_with_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "totals"
    sink = opened("delta", path)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(SinkError) as refusal:
        apply(sink, 12, insert(0, "chai", 0))
    assert str(refusal.value) == (
        f"delta sink {path}: the Delta table is gone; bring it back, or it is made anew and filled from "
        "the store. Nothing is lost: the next run continues with batch 12."
    )


def test_a_broken_file_is_one_sentence(tmp_path: Path) -> None:
    sink = opened("delta", tmp_path)
    apply(sink, 0, insert(0, "chai", 0))
    (file,) = tmp_path.glob("*.parquet")
    file.write_bytes(b"broken" * 100)
    with pytest.raises(SinkError) as refusal:
        apply(sink, 12, insert(0, "chai", 1))
    text = str(refusal.value)
    assert text.startswith(f"delta sink {tmp_path}: the Delta table cannot be used (")
    assert text.endswith("Nothing is lost: the next run continues with batch 12.")
    assert "\n" not in text


def test_a_broken_log_is_one_sentence(tmp_path: Path) -> None:
    sink = opened("delta", tmp_path)
    (log,) = (tmp_path / "_delta_log").glob("*.json")
    log.write_text("{broken")
    with pytest.raises(SinkError) as refusal:
        apply(sink, 12, insert(0, "chai", 0))
    text = str(refusal.value)
    assert text.startswith(f"delta sink {tmp_path}: the Delta table cannot be used (")
    assert text.endswith("Nothing is lost: the next run continues with batch 12.")
    assert "\n" not in text
