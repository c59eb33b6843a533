"""Power is cut at any moment of a run, and what was not synced is lost: the next run leaves the same."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from faults import power_kit
from faults.faults_kit import left_without_sqlite, table_rows, tables_of
from faults.power_kit import Cut, Disk
from faults.watch_kit import Watched
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run
from latecomer.errors import LatecomerError, StoreError, TornCheckpoint, TornCommit
from latecomer.log.ids import IdIndex
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.store.delta.commits import LOG, commit_file, set_torn_commit_aside
from latecomer.store.delta.table import Table, moments
from latecomer.store.delta.tables import CHECKPOINT_EVERY
from latecomer.store.pins import read_pins
from latecomer.store.recovery import held_for_run, require_unbroken, set_aside_torn
from latecomer.store.store import open_store


@dataclass(frozen=True)
class Recording:
    """A run from beginning to end, and every moment at which it might have lost power."""

    text: str
    cuts: list[Cut]
    whole: dict[str, list[str]]

    def different(self, names_survive: bool) -> list[int]:
        """The moments that leave something else than all before them, as far as a run can see it: a file of rows
        that no commit names does not exist for it."""
        seen: set[frozenset[tuple[Path, bytes]]] = set()
        found = []
        for nth, cut in enumerate(self.cuts):
            left = frozenset(_visible(cut.files(names_survive)))
            if left not in seen:
                seen.add(left)
                found.append(nth)
        return found

    def reopened(self, folder: Path, cut: Cut, names_survive: bool) -> Path:
        cut.lay_out(folder, names_survive)
        file = folder / "pipeline.yaml"
        file.write_text(self.text, encoding="utf-8")
        return file


def _visible(files: Mapping[Path, bytes | None]) -> Iterator[tuple[Path, bytes]]:
    commits = b"".join(written or b"" for place, written in files.items() if place.parent.name == LOG)
    for place, written in files.items():
        if written is None or place.suffix == ".crc" or "logs" in place.parts:
            continue
        if "data" in place.parts and place.name.encode() not in commits:
            continue
        yield place, written


@pytest.fixture(scope="module")
def recording(watched: Watched) -> Recording:
    return Recording(watched.text, watched.cuts, watched.whole)


def test_moments_reopen_to_ones_that_an_undisturbed_run_passes_through(
    recording: Recording, tmp_path: Path
) -> None:
    """Without Spark: each table holds whole batches, and no step is there without the one before it."""
    assert len(recording.cuts) > 100
    for nth in range(0, len(recording.cuts), 9):
        _reopen(recording, tmp_path, nth, names_survive=nth % 2 == 0)


@pytest.mark.long
def test_every_moment_reopens_to_one_that_an_undisturbed_run_passes_through(
    recording: Recording, tmp_path: Path
) -> None:
    for names_survive in (False, True):
        for nth in recording.different(names_survive):
            _reopen(recording, tmp_path, nth, names_survive)


def _reopen(recording: Recording, folder: Path, nth: int, names_survive: bool) -> None:
    file = recording.reopened(folder / f"{nth}-{names_survive}", recording.cuts[nth], names_survive)
    store = file.parent / "store"
    if not store.exists() or read_pins(store) is None:
        return
    set_aside_torn(store)
    pipeline = load_pipeline(file)
    require_unbroken(open_store(pipeline))
    for name, table in tables_of(pipeline).items():
        if not name.endswith("partials"):
            assert set(table_rows(table, pipeline)) <= set(recording.whole[name]), (nth, name)


@pytest.mark.parametrize(
    ("part", "names_survive"), [pytest.param(0.3, True, marks=pytest.mark.long), (0.6, False), (0.8, True)]
)
def test_power_is_cut_and_the_next_run_leaves_the_same(
    spark: SparkSession, recording: Recording, tmp_path: Path, part: float, names_survive: bool
) -> None:
    _cut_and_run(spark, recording, tmp_path, int(part * len(recording.cuts)), names_survive)


@pytest.mark.long
@pytest.mark.parametrize("names_survive", [False, True])
def test_power_is_cut_at_every_moment(
    spark: SparkSession, recording: Recording, tmp_path: Path, names_survive: bool
) -> None:
    moments, wrong = recording.different(names_survive), []
    for tried, nth in enumerate(moments, start=1):
        try:
            _cut_and_run(spark, recording, tmp_path / str(nth), nth, names_survive)
        except (LatecomerError, AssertionError) as error:
            wrong.append(f"cut {nth} of {len(recording.cuts)}: {error}")
        shutil.rmtree(tmp_path / str(nth))
        print(f"cut {nth}: {tried} of {len(moments)} moments, {len(wrong)} wrong")  # to be seen with -s
    assert not wrong, "\n".join(wrong)


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


TABLE = pa.schema([("batch", pa.int64())])
LOGGED = pa.schema(
    [("event_id", pa.string()), ("event_time", pa.timestamp("us", "UTC")), ("batch", pa.int64())]
)


def test_a_torn_commit_is_put_back_unless_its_batch_is_committed_again(tmp_path: Path) -> None:
    root = tmp_path / "events"
    for batch in range(3):
        Table(root, TABLE).append(batch, pa.table({"batch": [batch]}))
    commit_file(root, 3).write_bytes(b"")
    with pytest.raises(KeyError):
        _fail_in_run(tmp_path, root, again=False)
    with pytest.raises(TornCommit, match="run the pipeline"):
        Table(root, TABLE).last_batch()
    with pytest.raises(KeyError):
        _fail_in_run(tmp_path, root, again=True)
    assert Table(root, TABLE).last_batch() == 2


def _fail_in_run(store: Path, root: Path, again: bool) -> None:
    with held_for_run(store) as aside:
        assert len(aside) == 1
        assert Table(root, TABLE).last_batch() == 1
        if again:
            Table(root, TABLE).append(2, pa.table({"batch": [2]}))
        raise KeyError


def test_a_folder_that_appears_while_a_cut_is_recorded_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run makes folders in several threads."""
    names, table = power_kit._names, tmp_path / "root" / "panes"
    table.mkdir(parents=True)

    def busy(folder: Path) -> power_kit.Names:
        if folder == table:
            (table / "_delta_log").mkdir(exist_ok=True)
        return names(folder)

    monkeypatch.setattr(power_kit, "_names", busy)
    _recorded(tmp_path, monkeypatch, lambda: _sync(table.parent))
    assert (tmp_path / "0-True" / "panes" / "_delta_log").is_dir()


def test_a_folder_whose_removal_was_not_synced_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "root" / "panes"
    (table / "gone").mkdir(parents=True)

    def run() -> None:
        _sync(table)
        _sync(table.parent)
        (table / "gone").rmdir()
        _sync(table.parent)

    _recorded(tmp_path, monkeypatch, run)
    assert (tmp_path / "2-False" / "panes" / "gone").is_dir()
    assert not (tmp_path / "2-True" / "panes" / "gone").exists()


def _recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]) -> None:
    """What each cut of `root` leaves, in folders that are named for it."""
    disk = Disk(tmp_path / "root")
    with disk.listening(monkeypatch):
        run()
    for nth, cut in enumerate(disk.cuts):
        for names_survive in (False, True):
            cut.lay_out(tmp_path / f"{nth}-{names_survive}", names_survive)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@pytest.mark.parametrize("written", [b"not json", b'{"add": \n{"txn": {}}\n'])
def test_other_damage_is_not_taken_for_a_power_cut(tmp_path: Path, written: bytes) -> None:
    root = tmp_path / "events"
    Table(root, TABLE).append(0, pa.table({"batch": [0]}))
    commit_file(root, 1).write_bytes(written)
    with pytest.raises(StoreError, match="not as by a power cut"):
        set_aside_torn(tmp_path)
    assert commit_file(root, 1).read_bytes() == written


def test_a_torn_checkpoint_of_a_table_is_named_and_removed(tmp_path: Path) -> None:
    """delta-rs sums commits up, and would not open a table whose summary is torn."""
    root = tmp_path / "store" / "events"
    table = Table(root, TABLE)
    for batch in range(CHECKPOINT_EVERY):
        table.append(batch, pa.table({"batch": [batch]}))
    log = root / "_delta_log"
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    whole, hint = checkpoint.read_bytes(), (log / "_last_checkpoint").read_bytes()
    for torn in (b"", whole[:100], b"\0" * len(whole)):
        checkpoint.write_bytes(torn)
        (log / "_last_checkpoint").write_bytes(hint)
        with pytest.raises(TornCheckpoint, match="run the pipeline"):
            Table(root, TABLE).last_batch()
        assert set_aside_torn(tmp_path / "store") == []
        assert Table(root, TABLE).last_batch() == CHECKPOINT_EVERY - 1
    Table(root, TABLE).append(CHECKPOINT_EVERY, pa.table({"batch": [100]}))


@pytest.mark.parametrize("named", ["events", "panes", "partials", "ledger", "publications"])
def test_a_torn_commit_is_set_aside_with_the_checkpoint_that_survived_it(tmp_path: Path, named: str) -> None:
    root = tmp_path / "store" / named
    table = Table(root, TABLE)
    for batch in range(CHECKPOINT_EVERY - 1):  # the first commit makes the table
        table.append(batch, pa.table({"batch": [batch]}))
    log = root / "_delta_log"
    newest = max(log.glob("*.json"))
    assert (log / f"{newest.stem}.checkpoint.parquet").exists()
    newest.write_bytes(newest.read_bytes()[:40])
    (aside,) = set_aside_torn(tmp_path / "store")
    assert aside.exists()
    last = CHECKPOINT_EVERY - 3
    assert Table(root, TABLE).last_batch() == last
    assert DeltaTable(root).version() == int(newest.stem) - 1
    Table(root, TABLE).append(last + 1, pa.table({"batch": [last + 1]}))
    again = DeltaTable(root)
    assert again.version() == int(newest.stem)
    assert sorted(again.to_pyarrow_table()["batch"].to_pylist()) == list(range(last + 2))


def test_what_others_write_to_a_shared_table_is_not_taken_for_torn(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"batch": [1]}))
    DeltaTable(tmp_path).delete("batch = 1")
    write_deltalake(tmp_path, pa.table({"batch": [2]}), mode="append")
    assert set_torn_commit_aside(tmp_path, shared=True) is None
    assert DeltaTable(tmp_path).version() == 2


def test_the_ids_of_a_log_outlast_a_power_cut_or_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Table(tmp_path / "events", LOGGED)
    rows = {"event_id": ["a", "b"], "event_time": moments([1, 2]), "batch": [0, 0]}
    events.append(0, pa.table(rows, LOGGED))
    disk = Disk(tmp_path)
    with disk.listening(monkeypatch):
        index = IdIndex(tmp_path / "ids", events)
        index.catch_up(BEGIN_OF_TIME)
    assert disk.cuts, "a segment is synced before it has its name"
    (segment,) = index.segments
    whole = segment.path.read_bytes()
    for torn in (b"", whole[: len(whole) // 2], b"\0" * len(whole)):
        for path in (tmp_path / "ids").iterdir():
            path.write_bytes(torn)
        again = IdIndex(tmp_path / "ids", events)
        again.catch_up(BEGIN_OF_TIME)
        assert [each.rows for each in again.segments] == [2]
