"""Batches of the stream follow one another: a gap would be files that nobody has read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.decode.files import SourceFile
from latecomer.errors import StoreError
from latecomer.running import run
from latecomer.source.parts import RECORD, parts_of, require_next
from latecomer.store.store import open_store
from source.source_kit import pipeline_in, rows_of


def files(folder: Path, *names: str) -> list[SourceFile]:
    return [SourceFile(f"file://{folder}/{name}", 0, 1) for name in names]


def test_batches_and_parts_that_follow_are_accepted(tmp_path: Path) -> None:
    require_next(tmp_path, 0, -1, 0)
    assert len(parts_of(tmp_path, 0, files(tmp_path, "a", "b", "c"), str(tmp_path), 2)) == 2
    for accepted in (0, 1, 2):  # it was interrupted, and is handed in again
        require_next(tmp_path, 0, 0 if accepted else -1, accepted)
    require_next(tmp_path, 1, 0, 2)


def test_a_batch_without_files_of_ours_is_no_gap(tmp_path: Path) -> None:
    parts_of(tmp_path, 0, files(tmp_path, "a"), str(tmp_path), 1)
    assert parts_of(tmp_path, 1, files(tmp_path, "deep/a"), str(tmp_path), 1) == []
    require_next(tmp_path, 2, 0, 1)


def test_a_gap_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="hands in batch 1, and the last that was accepted is none"):
        require_next(tmp_path, 1, -1, 0)
    parts_of(tmp_path, 2, files(tmp_path, "a", "b"), str(tmp_path), 1)
    with pytest.raises(StoreError, match="hands in batch 7, and the last that was accepted is batch 2"):
        require_next(tmp_path, 7, 2, 2)
    with pytest.raises(StoreError, match="part 1 of the 2 of batch 2"):
        require_next(tmp_path, 3, 2, 1)
    with pytest.raises(StoreError, match="part 0 of the 2 of batch 2"):
        require_next(tmp_path, 3, 1, 5)


def test_a_record_of_an_earlier_version_says_less_and_is_enough(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(json.dumps({"source_batch": 4, "path": str(tmp_path), "size": 1}))
    require_next(tmp_path, 5, 3, 1)
    with pytest.raises(StoreError, match="hands in batch 6"):
        require_next(tmp_path, 6, 3, 1)


def test_files_behind_a_link_that_leads_back_are_left_out_also_after_it_has_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, store = tmp_path / "in", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    (folder / "loop").symlink_to(".")
    found, path = files(folder, "a", "loop/a", "loop/loop/a", "b"), f"{folder}/**/*"
    (parts,) = parts_of(store, 0, found, path, 9)
    assert [file.local.name for file in parts] == ["a", "b"]
    assert caplog.messages == [
        f"{folder}/loop is a link to a folder that it lies in: nothing below it is read; remove it"
    ]
    (folder / "loop").unlink()
    assert parts_of(store, 0, found, path, 9) == [parts]
    assert len(caplog.messages) == 1


def test_a_run_goes_on_after_files_that_are_not_its_own(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, files={"order_by": "at"})
    for nth, folder in enumerate((tmp_path / "in", tmp_path / "in" / "deep", tmp_path / "in")):
        folder.mkdir(exist_ok=True)
        (folder / f"{nth}.json").write_text(json.dumps({"at": f"2013-01-0{nth + 1}T00:00:00Z"}) + "\n")
        run(pipeline, once=True, spark=spark)
    read = "select batch, source_batch from t where kind = 'tick' order by batch"
    assert rows_of(open_store(pipeline).watermarks, read) == [
        {"batch": 0, "source_batch": 0},
        {"batch": 1, "source_batch": 2},
    ]
