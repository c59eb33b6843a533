"""A replay of dead letters that is interrupted anywhere leaves the same as one that was not, and takes each in once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.faults_kit import Died, left_behind, table_rows, write_pipeline
from latecomer.after.letters.replaying import ReplayedLetters
from latecomer.after.replay.replaying import replay
from latecomer.api import replay_dead_letters
from latecomer.config.load import load_pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import StoreError, StoreInUse
from latecomer.store import failpoints
from latecomer.store.holding.lock import exclusive
from latecomer.store.store import open_store

BATCH = 3
BOUNDARIES = (
    "repair.accepted",
    "events.written",
    "repairs.committed",
    "duplicates.committed",
    "events.committed",
    "watermarks.committed",
    "totals.panes.written",
    "totals.panes.committed",
    "totals.late.committed",
    "totals.partials.committed",
    "ledger.committed",
)
FIX = {
    "raw": """concat('{"txn": "r', batch, '-', position, '", "tower": "tower0", "merchant": "amul", "paise": 1000,',
      '"event_time": "2026-11-08T14:0', if(batch = 0, 0, if(position > 20, 1, 2)), ':30Z"}')"""
}
"""Of lines that are not JSON, payments: of the first file too late, of the others late or of a window still open."""


def prepared(folder: Path, spark: SparkSession) -> Path:
    """Three batches, and windows that are open."""
    file = write_pipeline(folder, sinks_for_rows=True)
    run(load_pipeline(file), once=True, spark=spark)
    return file


def repair(file: Path, spark: SparkSession) -> ReplayedLetters:
    return replay_dead_letters(load_pipeline(file), fix=FIX, spark=spark)


def left(file: Path) -> dict[str, list[str]]:
    pipeline = load_pipeline(file)
    return {**left_behind(file), "repairs": table_rows(open_store(pipeline).repairs, pipeline)}


@pytest.mark.long
def test_a_replay_interrupted_at_one_boundary_after_the_other(
    spark: SparkSession, tmp_path: Path, deadly: pytest.MonkeyPatch
) -> None:
    smooth, rough = (prepared(tmp_path / name, spark) for name in ("smooth", "rough"))
    done = repair(smooth, spark)
    assert (done.picked, done.events, done.batch) == (6, 6, BATCH)

    with exclusive(load_pipeline(rough).store_path):
        with pytest.raises(StoreInUse, match="stop it first"):
            repair(rough, spark)
        assert replay_dead_letters(load_pipeline(rough), fix=FIX, dry_run=True, spark=spark).events == 6
    for boundary in BOUNDARIES:
        deadly.setenv(failpoints.VARIABLE, f"{boundary}@{BATCH}")
        with pytest.raises(Died):
            repair(rough, spark)
    deadly.delenv(failpoints.VARIABLE)
    again = repair(rough, spark)
    assert (again.picked, again.batch) == (0, None)
    assert left(rough) == left(smooth)
    assert not (rough.parent / "store" / "repairing").exists()

    pipeline = load_pipeline(rough)
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal


@pytest.mark.long
def test_the_next_run_carries_an_interrupted_replay_through(
    spark: SparkSession, tmp_path: Path, deadly: pytest.MonkeyPatch
) -> None:
    file = prepared(tmp_path, spark)
    deadly.setenv(failpoints.VARIABLE, f"repairs.committed@{BATCH}")
    with pytest.raises(Died):
        repair(file, spark)
    deadly.delenv(failpoints.VARIABLE)
    run(load_pipeline(file), drain=True, spark=spark)
    assert check_ledger(load_pipeline(file), spark) == []
    counted = open_store(load_pipeline(file)).ledger.query(
        "select sum(dead_letter) as dead from t where unit = 'events' and output = 'totals'"
    )
    assert counted["dead"][0].as_py() == 0


@pytest.mark.long
@pytest.mark.parametrize("boundary", ["dead_letters.committed", "duplicates.committed"])
def test_nothing_takes_the_number_of_a_batch_that_is_logged_in_part(
    spark: SparkSession, tmp_path: Path, deadly: pytest.MonkeyPatch, boundary: str
) -> None:
    """Of a batch under that number, the rows that are there already would count as its own."""
    file = write_pipeline(tmp_path)
    deadly.setenv(failpoints.VARIABLE, f"{boundary}@1")
    with pytest.raises(Died):
        run(load_pipeline(file), once=True, spark=spark)
    deadly.delenv(failpoints.VARIABLE)
    with pytest.raises(StoreError, match="run the pipeline once"):
        repair(file, spark)
    run(load_pipeline(file), once=True, spark=spark)
    assert repair(file, spark).events == 6
    assert check_ledger(load_pipeline(file), spark) == []
