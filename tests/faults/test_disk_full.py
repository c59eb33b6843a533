"""A disk that is full at any step of a run: one sentence, and once there is room the next run leaves the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.disk_kit import Steps, small_disk
from faults.faults_kit import BOUNDARIES, left_behind, write_pipeline
from latecomer.config.load import load_pipeline
from latecomer.errors import LatecomerError
from latecomer.ledger.check import check_ledger
from latecomer.running import run

LAST = "sinks.applied"
"""After this a run writes nothing that it could not do without."""


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    file = write_pipeline(tmp_path_factory.mktemp("undisturbed"))
    run(load_pipeline(file), drain=True, spark=spark)
    return left_behind(file)


def test_the_disk_is_full_at_every_step_one_after_the_other(
    spark: SparkSession,
    tmp_path: Path,
    undisturbed: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with small_disk(tmp_path / "small", 8) as disk:
        file = write_pipeline(disk.root / "pipeline")
        steps = Steps(disk.fill)
        steps.listen(monkeypatch)
        told: dict[str, str] = {}
        while len(steps.begun) < len(BOUNDARIES):
            steps.arm()
            try:
                run(load_pipeline(file), drain=True, spark=spark)
            except LatecomerError as error:
                told[steps.begun[-1]] = str(error)
            disk.make_room()
            if steps.armed:
                break
        print("\n".join(f"{k}: {v}" for k, v in told.items()))
        assert set(BOUNDARIES) - set(told) <= {LAST}
        for step, sentence in told.items():
            assert re.search(rf"{disk.root}.*the disk is full|the disk is full: {disk.root}", sentence), (
                step,
                sentence,
            )
            assert "make room there" in sentence
            assert "Nothing is lost" in sentence
        run(load_pipeline(file), drain=True, spark=spark)
        assert left_behind(file) == undisturbed
        assert check_ledger(load_pipeline(file), spark) == []
