"""Copies of a store that are as good as the store, beside a run too."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from after.reconcile.log_kit import arrivals
from cli.cli_kit import Cli
from engine.upkeep.upkeep_kit import Days, contents, named_files
from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.engine.following import follow
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.pipeline import Engine
from latecomer.engine.starting import start_engine
from latecomer.engine.upkeep import copies
from latecomer.engine.upkeep.copies import move, snapshot
from latecomer.engine.without_data import drain_input
from latecomer.errors import NoStore, StoreError, StoreInUse, StoreMismatch
from latecomer.model.strategies import Bounded
from latecomer.spark.base import InProcess
from latecomer.spark.when_needed import when_needed
from latecomer.store.holding.lock import exclusive, lease_of
from latecomer.store.store import Store, open_store
from scenarios import cut
from spark_kit import Bench, as_lines, comparable, require_equal, stored_entries, stored_panes

OUTPUTS = {
    "updates": Output(
        window={"tumbling": "1m"},
        by=["key"],
        aggregates={"paise": "sum(paise)", "n": "count(*)"},
        allowed_lateness="90s",
        late="retract",
    ),
    "visits": Output(window={"session": "7s"}, by=["key"], aggregates={"n": "count(*)"}, late="update"),
}
BATCHES = cut(arrivals(), list(range(5, 85, 5)))


def at(pipeline: Pipeline, place: Path) -> Pipeline:
    return pipeline.model_copy(update={"store": str(place)})


def test_a_snapshot_is_a_store_like_any_other(days: Days, tmp_path: Path) -> None:
    copied = snapshot(days.store.root, tmp_path / "copy")
    there = open_store(at(days.pipeline, copied.place))
    assert copied.batch == 11
    assert contents(there) == contents(days.store)
    assert check_ledger(at(days.pipeline, copied.place)) == []
    assert there.pins() == days.store.pins()
    shutil.rmtree(days.store.root)
    assert len(contents(there)) == copied.tables


def test_a_snapshot_has_no_files_that_no_table_names(days: Days, tmp_path: Path) -> None:
    (days.store.root / "events" / "data" / "0000000011-dead").mkdir()
    (days.store.root / "events" / "data" / "0000000011-dead" / "part.parquet").write_text("half")
    (days.store.root / "logs").mkdir()
    (days.store.root / "logs" / "spark.log").write_text("…")
    copied = snapshot(days.store.root, tmp_path / "copy")
    there = open_store(at(days.pipeline, copied.place))
    written = {file.relative_to(there.root).as_posix() for file in there.root.rglob("*.parquet")}
    assert {file for file in written if "_delta_log" not in file} == named_files(there)
    assert not (there.root / "logs").exists()


def test_a_batch_under_way_is_not_in_it(days: Days, tmp_path: Path) -> None:
    """Its tables go back to the batch that was complete last; what was accepted is completed by the next run."""
    store = days.store
    before = contents(store)
    days.watermarks(12, [{"tick": 24, "at": 0, "watermark": 0}])
    for table in (store.events, store.duplicates, days.tables("totals").panes):
        table.refresh()
        table.commit(12, [])
    copied = snapshot(store.root, tmp_path / "copy")
    there = open_store(at(days.pipeline, copied.place))
    assert copied.batch == 11
    assert (there.watermarks.last_batch(), there.events.last_batch()) == (12, 12)
    assert there.output_tables("totals", there.ledger.schema).panes.last_batch() == 11
    after = contents(there)
    assert {name: after[name] for name in after if name != "watermarks"} == {
        name: before[name] for name in before if name != "watermarks"
    }


def test_there_must_be_a_store_and_a_free_place(days: Days, tmp_path: Path) -> None:
    root = days.store.root
    with pytest.raises(NoStore, match="no store at"):
        snapshot(tmp_path / "nowhere", tmp_path / "copy")
    with pytest.raises(StoreError, match="is within the store"):
        snapshot(root, root / "copy")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        snapshot(root, tmp_path / "full")


def test_a_run_that_never_pauses_is_named(
    days: Days, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "PATIENCE", 0.5)
    seen = iter(range(1_000_000))
    monkeypatch.setattr(copies, "_moment", lambda _: next(seen))
    with pytest.raises(StoreError, match="without a pause"):
        snapshot(days.store.root, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_copy_that_was_interrupted_is_no_store(
    days: Days, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("latecomer.engine.upkeep.copies._copy_table", fails)
    with pytest.raises(OSError, match="No space"):
        snapshot(days.store.root, tmp_path / "copy")
    with pytest.raises(NoStore):
        open_store(at(days.pipeline, tmp_path / "copy"))


def test_a_copy_of_a_store_with_a_lease_is_held_by_nobody(days: Days, tmp_path: Path) -> None:
    """Its tables carry the token of whoever held it: the next holder has a newer one."""
    for _ in range(3):
        with exclusive(days.store.root, takeover=30.0):
            copied = snapshot(days.store.root, tmp_path / f"copy{_}")
    assert copied.batch == 11
    assert contents(open_store(at(days.pipeline, copied.place))) == contents(days.store)
    with exclusive(copied.place, takeover=30.0):
        record = lease_of(copied.place)
    assert record is not None
    assert record.token == 4


# Beside a run


def _no_spark() -> NoReturn:
    raise AssertionError("no Spark is needed here")


def engine_of(pipeline: Pipeline) -> Engine:
    engine = Engine(InProcess(when_needed(_no_spark)), Store(pipeline, pipeline.source.columns or {}))
    start_engine(engine)
    return engine


def run_to_the_end(pipeline: Pipeline) -> None:
    with exclusive(pipeline.store_path):
        engine = engine_of(pipeline)
        follow(engine, threading.Event(), bounded=True)
        drain_input(engine)
        engine.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Sixteen files, each a batch."""
    bench = Bench(
        None, tmp_path_factory.mktemp("copied"), Bounded("5s"), OUTPUTS, {"key": "string", "paise": "bigint"}
    )
    for number, batch in enumerate(BATCHES):
        bench.write(number, batch)
    return bench


def one_file_each(pipeline: Pipeline) -> Pipeline:
    files = pipeline.source.files.model_copy(update={"max_files_per_batch": 1})
    return pipeline.model_copy(update={"source": pipeline.source.model_copy(update={"files": files})})


@pytest.mark.long
def test_snapshots_beside_a_run_are_gone_on_with_to_the_same_end(bench: Bench, tmp_path: Path) -> None:
    """Wherever the run was: in the middle of a batch, between two of them, before the end."""
    pipeline = one_file_each(at(bench.pipeline, tmp_path / "store"))
    running = threading.Thread(target=run_to_the_end, args=(pipeline,))
    running.start()
    taken = []
    while running.is_alive() and len(taken) < 2:
        try:
            taken.append(snapshot(pipeline.store_path, tmp_path / f"copy{len(taken)}"))
        except NoStore:  # no batch yet
            continue
    running.join()
    assert taken
    outcome = bench.oracle(BATCHES, drain=True)
    for copied in taken:
        here = at(pipeline, copied.place)
        assert check_ledger(here) == []
        run_to_the_end(here)
        store = open_store(here)
        for output in OUTPUTS:
            published = [(each.batch, each.pane) for each in outcome.published[output]]
            require_equal(comparable(stored_panes(store, output)), comparable(published))
        require_equal(as_lines(stored_entries(store)), as_lines(outcome.ledger))


# Moving


def test_a_moved_store_is_refused_in_its_old_place(days: Days, tmp_path: Path) -> None:
    before = contents(days.store)
    move(days.store.root, tmp_path / "new")
    assert contents(open_store(at(days.pipeline, tmp_path / "new"))) == before
    with pytest.raises(StoreMismatch, match=f"was moved; write store: {tmp_path}/new in the pipeline file"):
        open_store(days.pipeline)
    with pytest.raises(StoreMismatch, match="was moved"):
        snapshot(days.store.root, tmp_path / "again")


def test_a_store_in_use_is_not_moved(days: Days, tmp_path: Path) -> None:
    with exclusive(days.store.root), pytest.raises(StoreInUse):
        move(days.store.root, tmp_path / "new")
    assert not (tmp_path / "new").exists()


# The verbs


def test_the_verbs_say_what_they_did(days: Days, tmp_path: Path, cli: Cli) -> None:
    said = cli("snapshot", days.file, tmp_path / "copy", "--format=json")
    assert json.loads(said.out)[0]["batch"] == 11
    assert cli("snapshot", tmp_path / "copy", tmp_path / "second", "--format=json").status == 0
    said = cli("move", days.file, tmp_path / "new")
    assert f"in {days.file}, write\n    store: {tmp_path}/new" in said.err
    said = cli("results", days.file, "totals")
    assert (said.status, "was moved" in said.err) == (1, True)
    days.file.write_text(days.file.read_text().replace("store: ./lake", f"store: {tmp_path}/new"))
    assert cli("results", days.file, "totals").status == 0
    assert load_pipeline(days.file).store_path == tmp_path / "new"


def test_a_store_of_the_first_format_is_upgraded_step_by_step(days: Days, cli: Cli) -> None:
    pins = days.store.root / "pipeline.json"
    first = {**json.loads(pins.read_text()), "format": 1}
    del first["sums"]
    pins.write_text(json.dumps(first))
    said = cli("upgrade", days.file, "--dry-run", "--format=csv")
    assert [line.split(",")[0] for line in said.out.splitlines()] == ["step", "1 to 2", "2 to 3"]
    assert json.loads(pins.read_text())["format"] == 1
    assert cli("upgrade", days.file).status == 0
    assert json.loads(pins.read_text())["format"] == 3
    assert "nothing to do" in cli("upgrade", days.file).out
