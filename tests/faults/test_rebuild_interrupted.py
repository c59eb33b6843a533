"""A rebuild that is interrupted anywhere and asked for again leaves the same as one that was not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.faults_kit import Died, left_behind, write_pipeline
from latecomer.after.rebuild import rebuilding
from latecomer.after.replay.replaying import replay
from latecomer.config.load import load_pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import StoreMismatch
from latecomer.store import failpoints

BOUNDARIES = (
    "rebuild.accepted@4",
    "watermarks.committed@4",
    "totals.panes.written@4",
    "totals.panes.committed@4",
    "ledger.committed@4",
)
REDEFINED = (*BOUNDARIES[:4], "totals.partials.committed@4", BOUNDARIES[4])


def prepared(folder: Path, spark: SparkSession, drain: bool = True) -> Path:
    file = write_pipeline(folder)
    run(load_pipeline(file), drain=drain, once=True, spark=spark)
    return file


def redefine(file: Path) -> None:
    """From here on small payments do not count, and there are aggregates more."""
    text = file.read_text(encoding="utf-8")
    for before, after in (
        (
            "    allowed_lateness: 90s\n    late: update",
            "    where: paise > 150\n    allowed_lateness: 90s\n    late: update",
        ),
        ("payments: count(*), spread", "payments: count(*), least: min(paise), mean: avg(paise), spread"),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    file.write_text(text, encoding="utf-8")


def rebuild(file: Path, spark: SparkSession) -> int | None:
    return rebuilding.apply(load_pipeline(file), "totals", spark=spark).batch


def interrupted(file: Path, spark: SparkSession, places: tuple[str, ...], deadly: pytest.MonkeyPatch) -> None:
    for place in places:
        deadly.setenv(failpoints.VARIABLE, place)
        with pytest.raises(Died):
            rebuild(file, spark)
    deadly.delenv(failpoints.VARIABLE)


def copied(finished: Path, folder: Path) -> Path:
    """The run that is shared, to be rebuilt: a copy has the source's files elsewhere, and can be run no more."""
    shutil.copytree(finished.parent, folder, dirs_exist_ok=True)
    return folder / finished.name


@pytest.fixture(scope="module")
def rebuilt(
    spark: SparkSession, finished: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """What a rebuild leaves behind that nothing interrupts."""
    file = copied(finished, tmp_path_factory.mktemp("rebuilt"))
    assert rebuild(file, spark) == 4
    assert rebuild(file, spark) is None
    found = left_behind(file)
    assert any("CORRECTION" in row for row in found["sqlite"])
    assert any("CORRECTION" in row for row in found["delta"])
    return found


@pytest.mark.parametrize(
    "places", [BOUNDARIES[::2], pytest.param(BOUNDARIES, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_a_rebuild_interrupted_at_one_boundary_after_the_other(
    spark: SparkSession,
    tmp_path: Path,
    finished: Path,
    rebuilt: dict[str, list[str]],
    deadly: pytest.MonkeyPatch,
    places: tuple[str, ...],
) -> None:
    file = copied(finished, tmp_path)
    interrupted(file, spark, places, deadly)
    rebuild(file, spark)
    assert left_behind(file) == rebuilt
    assert check_ledger(load_pipeline(file), spark) == []


@pytest.mark.long
def test_the_next_run_carries_an_interrupted_rebuild_through(
    spark: SparkSession, tmp_path: Path, deadly: pytest.MonkeyPatch
) -> None:
    files = [prepared(tmp_path / name, spark) for name in ("smooth", "rough")]
    assert rebuild(files[0], spark) == 4
    interrupted(files[1], spark, BOUNDARIES[:1], deadly)
    run(load_pipeline(files[1]), once=True, spark=spark)
    assert left_behind(files[1]) == left_behind(files[0])


@pytest.mark.long
def test_another_definition_interrupted_at_one_boundary_after_the_other(
    spark: SparkSession, tmp_path: Path, deadly: pytest.MonkeyPatch
) -> None:
    files = [prepared(tmp_path / name, spark, drain=False) for name in ("smooth", "rough")]
    # Three batches and no drain, so that windows are open: the rebuild is batch 3.
    places = tuple(place.replace("@4", "@3") for place in REDEFINED)
    for file in files:
        redefine(file)
        with pytest.raises(StoreMismatch, match="rebuild apply"):
            run(load_pipeline(file), once=True, spark=spark)
    assert rebuild(files[0], spark) == 3
    interrupted(files[1], spark, places, deadly)
    rebuild(files[1], spark)
    smooth, rough = map(left_behind, files)
    assert rough == smooth
    for file in files:
        run(load_pipeline(file), drain=True, spark=spark)
        assert check_ledger(load_pipeline(file), spark) == []
        again = replay(load_pipeline(file), spark=spark)
        assert again.equal, again.summary.to_pylist()
