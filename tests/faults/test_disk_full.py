"""A disk that is full at any step of a run: one sentence, and once there is room the next run leaves the same.

The disk is a real one, small and in memory, so that the writes of Spark, Arrow, delta-rs and SQLite fail as they
would. Where none can be mounted, what Python writes fails by injection.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.disk_kit import SmallDisk, Steps, failing_syncs, small_disk
from faults.faults_kit import BOUNDARIES, left_behind, write_pipeline
from latecomer.after.rebuild import rebuilding
from latecomer.config.load import load_pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.engine.upkeep.compacting import compact
from latecomer.errors import LatecomerError
from latecomer.source.finding import Finder

FINDING = ("resume", "look")
"""Before what was found is read, and before what is new is written down."""
SOME = (*FINDING, "totals.panes.committed", "ledger.committed")


@pytest.mark.parametrize("chosen", [SOME, pytest.param(None, marks=pytest.mark.long)], ids=["some", "all"])
def test_the_disk_is_full_at_one_step_after_the_other(
    spark: SparkSession,
    tmp_path: Path,
    undisturbed: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    chosen: Collection[str] | None,
) -> None:
    with small_disk(tmp_path / "small", 8) as disk:
        file = write_pipeline(disk.root / "pipeline")
        steps = Steps(disk.fill, chosen)
        steps.listen(monkeypatch, Finder, FINDING)
        outcome = _run_until_undisturbed(file, spark, steps, disk)
        assert set(chosen or (*FINDING, *BOUNDARIES)) - {"sinks.applied"} <= set(outcome)
        for step, sentence in outcome.items():
            named = rf"{disk.root}.*the disk is full|the disk is full: {disk.root}"
            assert re.search(named, sentence), (step, sentence)
            assert "make room there" in sentence
            assert "Nothing is lost: the next run continues" in sentence
        assert left_behind(file) == undisturbed
        assert check_ledger(load_pipeline(file), spark) == []


def _run_until_undisturbed(file: Path, spark: SparkSession, steps: Steps, disk: SmallDisk) -> dict[str, str]:
    """What each run said that ran out of room, by the step at which it did; the last one did not."""
    outcome: dict[str, str] = {}
    while not steps.armed:
        steps.armed = True
        try:
            run(load_pipeline(file), drain=True, spark=spark)
        except LatecomerError as error:
            outcome[steps.begun[-1]] = str(error)
        disk.make_room()
    return outcome


def test_a_disk_that_is_full_from_the_start(spark: SparkSession, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 8) as disk:
        file = write_pipeline(disk.root / "pipeline")
        disk.fill()
        with pytest.raises(LatecomerError, match=rf"{disk.root}.*the disk is full; make room there"):
            run(load_pipeline(file), once=True, spark=spark)


def test_rebuilding_and_compacting_on_a_full_disk(
    spark: SparkSession, tmp_path: Path, finished: Path
) -> None:
    with small_disk(tmp_path / "small", 16) as disk:
        shutil.copytree(finished.parent, disk.root / "pipeline")
        file = disk.root / "pipeline" / finished.name
        pipeline = load_pipeline(file)
        before = left_behind(file)
        disk.fill()
        full = rf"{disk.root}.*the disk is full|the disk is full: {disk.root}"
        with pytest.raises(LatecomerError, match=full):
            compact(pipeline)
        with pytest.raises(LatecomerError, match=full):
            rebuilding.apply(pipeline, "totals", spark=spark)
        disk.make_room()
        assert left_behind(file) == before
        compact(pipeline)
        assert left_behind(file) == before
        rebuilding.apply(pipeline, "totals", spark=spark)
        assert check_ledger(pipeline, spark) == []


REFUSED = [
    (3, errno.ENOSPC, "the disk is full"),
    (9, errno.EROFS, "the file system can only be read"),
    (30, errno.EACCES, "permission is denied"),
    (60, errno.EMFILE, "too many files are open"),
    (60, errno.EIO, "input/output error"),
]


@pytest.mark.long
def test_what_is_refused_while_a_file_is_brought_to_the_disk(
    spark: SparkSession, tmp_path: Path, undisturbed: dict[str, list[str]]
) -> None:
    """Needs no rights: the nth sync of each run fails, and all after it."""
    file = write_pipeline(tmp_path)
    for nth, number, reason in REFUSED:
        with pytest.MonkeyPatch.context() as patched:
            failing_syncs(nth, number, patched, tmp_path)
            with pytest.raises(LatecomerError, match=reason) as outcome:
                run(load_pipeline(file), drain=True, spark=spark)
        assert "Nothing is lost" in str(outcome.value)
    run(load_pipeline(file), drain=True, spark=spark)
    assert left_behind(file) == undisturbed
