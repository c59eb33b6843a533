"""Power is cut at any moment of a run, and what was not synced is lost: the next run leaves the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.faults_kit import PIPELINE, left_without_sqlite, table_rows, tables_of, write_pipeline
from faults.power_kit import Cut, Disk
from latecomer.config.load import load_pipeline
from latecomer.errors import TornCommit
from latecomer.running import run
from latecomer.store.recovery import require_unbroken, set_aside_torn
from latecomer.store.store import open_store, read_pins


@dataclass(frozen=True)
class Recording:
    """A run from beginning to end, and every moment at which it might have lost power."""

    text: str
    cuts: list[Cut]
    whole: dict[str, list[str]]

    def reopened(self, folder: Path, cut: Cut, names_survive: bool) -> Path:
        cut.lay_out(folder, names_survive)
        file = folder / "pipeline.yaml"
        file.write_text(self.text, encoding="utf-8")
        return file


@pytest.fixture(scope="module")
def recording(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    source = write_pipeline(tmp_path_factory.mktemp("source")).parent / "in"
    text = PIPELINE.replace("path: in", f"path: {source}").replace("{sqlite: results.db}, ", "")
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "pipeline.yaml").write_text(text, encoding="utf-8")
    disk = Disk(folder)
    with pytest.MonkeyPatch.context() as patched, disk.listening(patched):
        run(load_pipeline(folder / "pipeline.yaml"), drain=True, spark=spark)
    return Recording(text, disk.cuts, left_without_sqlite(folder / "pipeline.yaml"))


def test_every_moment_reopens_to_one_that_an_undisturbed_run_passes_through(
    recording: Recording, tmp_path: Path
) -> None:
    """Without Spark: each table holds whole batches, and no step is there without the one before it."""
    assert len(recording.cuts) > 100
    for nth, cut in enumerate(recording.cuts):
        for names_survive in (False, True):
            file = recording.reopened(tmp_path / f"{nth}-{names_survive}", cut, names_survive)
            store = file.parent / "store"
            if not store.exists() or read_pins(store) is None:
                continue
            set_aside_torn(store)
            pipeline = load_pipeline(file)
            require_unbroken(open_store(pipeline))
            for name, table in tables_of(pipeline).items():
                if not name.endswith("partials"):
                    assert set(table_rows(table, pipeline)) <= set(recording.whole[name]), (nth, name)


@pytest.mark.parametrize("names_survive", [False, True])
@pytest.mark.parametrize("part", [0.15, 0.4, 0.65, 0.9])
def test_power_is_cut_and_the_next_run_leaves_the_same(
    spark: SparkSession, recording: Recording, tmp_path: Path, part: float, names_survive: bool
) -> None:
    _cut_and_run(spark, recording, tmp_path, int(part * len(recording.cuts)), names_survive)


@pytest.mark.long
@pytest.mark.parametrize("names_survive", [False, True])
def test_power_is_cut_at_every_moment(
    spark: SparkSession, recording: Recording, tmp_path: Path, names_survive: bool
) -> None:
    for nth in range(len(recording.cuts)):
        _cut_and_run(spark, recording, tmp_path / str(nth), nth, names_survive)


def _cut_and_run(
    spark: SparkSession, recording: Recording, folder: Path, nth: int, names_survive: bool
) -> None:
    file = recording.reopened(folder, recording.cuts[nth], names_survive)
    run(load_pipeline(file), drain=True, spark=spark)
    assert left_without_sqlite(file) == recording.whole, f"cut {nth} of {len(recording.cuts)}"


def test_a_torn_commit_is_named_by_every_reader(recording: Recording, tmp_path: Path) -> None:
    file = recording.reopened(tmp_path, recording.cuts[-1], names_survive=True)
    commits = sorted((tmp_path / "store" / "events" / "_delta_log").glob("*.json"))
    whole = commits[-1].read_bytes()
    for torn in (b"", whole[: len(whole) // 2], b"\0" * len(whole), whole[: whole.rindex(b"\n")]):
        commits[-1].write_bytes(torn)
        with pytest.raises(TornCommit, match=commits[-1].name):
            left_without_sqlite(file)
