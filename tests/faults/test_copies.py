"""A copy made of a store that is in use is a consistent earlier state, or it is refused: it is never short."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from faults.copy_kit import Film
from faults.faults_kit import left_without_sqlite, table_rows, tables_of
from faults.watch_kit import Watched
from latecomer.after.reading.reader import Reader
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run
from latecomer.errors import LatecomerError, StoreError
from latecomer.log.timeline.keeper import TimelineKeeper
from latecomer.source.choose import sources_of
from latecomer.store.publications import BatchCloser
from latecomer.store.recovery import require_unbroken, set_aside_torn
from latecomer.store.store import Store, open_store, read_pins

FIXES = ("copy it again while no run holds it", "restore", "give the sink another path")


@dataclass(frozen=True)
class Filmed:
    """A run from beginning to end, and what its folder was like meanwhile."""

    text: str
    film: Film
    whole: dict[str, list[str]]
    times: Mapping[int, datetime]

    def copied(self, folder: Path, seed: int) -> Path:
        folder.mkdir()
        self.film.copy(folder, Random(seed))
        file = folder / "pipeline.yaml"
        file.write_text(self.text, encoding="utf-8")
        return file


@pytest.fixture(scope="module")
def filmed(watched: Watched) -> Filmed:
    return Filmed(watched.text, watched.film, watched.whole, watched.times)


@pytest.mark.long
def test_a_copy_holds_every_batch_whole_or_is_refused(filmed: Filmed, tmp_path: Path) -> None:
    _copies(filmed, tmp_path, range(60))


@pytest.mark.long
def test_many_copies_hold_every_batch_whole_or_are_refused(filmed: Filmed, tmp_path: Path) -> None:
    _copies(filmed, tmp_path, range(500))


def _copies(filmed: Filmed, folder: Path, seeds: Sequence[int]) -> None:
    refused = 0
    for seed in seeds:
        file = filmed.copied(folder / str(seed), seed)
        store, outcome = None, ""
        try:
            store = _opened(file)
        except StoreError as error:
            outcome = str(error)
            refused += 1
        assert not outcome or any(fix in outcome for fix in FIXES), (seed, outcome)
        if store is not None:
            _require_whole(store, filmed.whole, seed)
        shutil.rmtree(file.parent)
    print(f"{refused} of {len(seeds)} copies were refused")
    assert 0 < refused < len(seeds)


def _opened(file: Path) -> Store | None:
    """The store of a copy as a run would open it, without Spark; None where it has not been begun."""
    root = file.parent / "store"
    if not root.exists() or read_pins(root) is None:
        return None
    set_aside_torn(root)
    store = open_store(load_pipeline(file))
    require_unbroken(store)
    BatchCloser(store).begin()
    keeper = TimelineKeeper(store.watermarks, store.pipeline.watermark)
    half_logged = store.events.last_batch() > store.ledger.last_batch()
    there = keeper.accepted()
    (source,) = sources_of(store.pipeline, store.columns).values()
    source.resume(root, there.batch, logged=half_logged, parts=there.parts)
    return store


def _require_whole(store: Store, whole: Mapping[str, Sequence[str]], seed: int) -> None:
    """Every table has all rows of each batch that the ledger closes, and the log of each that it holds."""
    complete, logged = store.ledger.last_batch(), store.events.last_batch()
    for name, table in tables_of(store.pipeline).items():
        if name.endswith("partials"):
            continue
        last = logged if name in ("events", "duplicates", "dead_letters") else complete
        expected = [row for row in whole[name] if _batch(row) <= last]
        found = [row for row in table_rows(table, store.pipeline) if _batch(row) <= last]
        assert found == expected, f"copy {seed}: {name} up to batch {last}"


def _batch(row: str) -> int:
    return int(row.split("'batch': ")[1].split(",")[0].rstrip("}"))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_a_copy_is_run_to_the_same_end_or_refused(
    spark: SparkSession, filmed: Filmed, tmp_path: Path, seed: int
) -> None:
    _run_copy(spark, filmed, tmp_path, seed)


@pytest.mark.long
def test_many_copies_are_run_to_the_same_end_or_refused(
    spark: SparkSession, filmed: Filmed, tmp_path: Path
) -> None:
    for seed in range(100, 150):
        _run_copy(spark, filmed, tmp_path, seed)


def _run_copy(spark: SparkSession, filmed: Filmed, folder: Path, seed: int) -> None:
    file = filmed.copied(folder / str(seed), seed)
    outcome = ""
    try:
        run(load_pipeline(file), drain=True, spark=spark)
    except LatecomerError as error:
        outcome = str(error)
    if outcome:
        assert any(fix in outcome for fix in FIXES), (seed, outcome)
    else:
        assert left_without_sqlite(file, filmed.times) == filmed.whole, seed


def test_panes_that_are_behind_the_ledger_are_not_read(filmed: Filmed, tmp_path: Path) -> None:
    """The ledger of a later moment beside the panes of an earlier one: results would be short, and look right."""
    file = filmed.copied(tmp_path / "copy", 0)
    shutil.rmtree(file.parent / "store", ignore_errors=True)
    last, panes = filmed.film.views[-1], Path("store", "outputs", "totals", "panes")
    commits = sorted(path for path in last if path.is_relative_to(panes) and path.suffix == ".json")
    for path, written in last.items():
        if path != commits[-1]:
            (file.parent / path).parent.mkdir(parents=True, exist_ok=True)
            (file.parent / path).write_bytes(written)
    with pytest.raises(StoreError, match=r"ledger says that outputs/totals/panes has batch 3.*copy it again"):
        Reader(load_pipeline(file)).results("totals")


@pytest.mark.parametrize("kept", ["partials", "panes"])
def test_tables_that_are_ahead_of_what_they_rest_on_are_not_run(
    filmed: Filmed, tmp_path: Path, kept: str
) -> None:
    """Open states of a later moment beside the panes of an earlier one: the next panes would be short. And panes that
    are two batches ahead of the ledger."""
    file = filmed.copied(tmp_path / "copy", 0)
    shutil.rmtree(file.parent / "store", ignore_errors=True)
    folder, last = Path("store", "outputs", "totals", kept), filmed.film.views[-1]
    ledger = Path("store", "ledger", "_delta_log", "00000000000000000001.json")
    early = next(view for view in filmed.film.views if ledger in view)
    for path, content in {
        **{path: content for path, content in early.items() if folder not in path.parents},
        **{path: content for path, content in last.items() if folder in path.parents},
    }.items():
        (file.parent / path).parent.mkdir(parents=True, exist_ok=True)
        (file.parent / path).write_bytes(content)
    store = open_store(load_pipeline(file))
    missing = "panes" if kept == "partials" else "ledger"
    with pytest.raises(StoreError, match=rf"of totals and not in the {missing}; if this is a copy"):
        require_unbroken(store)
