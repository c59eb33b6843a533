"""Small files merged and dead ones swept, on a store made by hand."""

from __future__ import annotations

import os
import shutil
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import strategies as st

from cli.cli_kit import rows_of
from engine.upkeep.upkeep_kit import (
    HOUR,
    MIDNIGHT,
    PIPELINE,
    Days,
    aged,
    contents,
    killed_at,
    make_days,
    on_disk,
    tables,
)
from examples_kit import drawn
from latecomer.after.explain.explain import explain
from latecomer.after.reading.reader import Reader
from latecomer.engine.upkeep import plan
from latecomer.engine.upkeep.compacting import compact
from latecomer.errors import NoStore, PipelineError, StoreInUse, StoreMismatch
from latecomer.model.durations import DAY, to_micros, to_moment
from latecomer.store.delta.data_files import batches_of
from latecomer.store.holding.lock import COMPACT, exclusive
from latecomer.store.publications import BatchCloser, Publications

LATER = datetime.now(UTC) + timedelta(days=30)


def test_publication_times_stay_and_their_files_become_one(days: Days) -> None:
    store, beyond = days.store, to_micros(LATER)
    for batch in range(12, 18):
        empty = store.ledger.schema.empty_table()
        BatchCloser(store, lambda batch=batch: beyond + batch).close(batch, empty)
    before = Publications(store).times(0, 17, "totals")
    assert before == {**before, **{batch: beyond + batch for batch in range(12, 18)}}
    assert len(before) == 18
    assert len(store.publications.files()) == 7
    compact(days.pipeline)
    store.publications.refresh()
    assert len(store.publications.files()) == 1
    assert Publications(store).times(0, 17, "totals") == before


def test_every_row_stays_and_files_become_few(days: Days) -> None:
    before = contents(days.store)
    report = compact(days.pipeline)
    assert contents(days.store) == before
    counts = {name: len(table.files()) for name, table in tables(days.store).items()}
    assert counts == {
        "events": 1,
        "duplicates": 1,
        "dead_letters": 1,
        "watermarks": 1,
        "ledger": 1,
        "outputs/totals/panes": 2,  # the newest can still be reached by late events
        "outputs/totals/late": 1,
    }
    outcome = {row["table"]: (row["files"], row["files_after"]) for row in report.rows.to_pylist()}
    assert outcome == {name: (12, count) for name, count in counts.items()}
    assert report.total("bytes_after") < report.total("bytes")


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any day is busy enough for files of its own."""
    monkeypatch.setattr(plan, "FULL", 1)


def test_an_event_file_of_a_busy_day_is_sorted(days: Days, busy: None) -> None:
    compact(days.pipeline)
    events = days.store.events
    for file in events.files():
        times = pq.read_table(events.root / file.path)["event_time"].to_pylist()
        assert times == sorted(times)
        batches = set(pq.read_table(events.root / file.path)["batch"].to_pylist())
        assert (min(batches), max(batches)) == (batches_of(file)[0], batches_of(file)[-1])


def test_the_columns_stay_what_they_are(days: Days) -> None:
    before = {name: table.stored_schema for name, table in tables(days.store).items()}
    transactions = {name: table.last_batch() for name, table in tables(days.store).items()}
    compact(days.pipeline)
    for name, table in tables(days.store).items():
        assert table.stored_schema == before[name]
        assert table.last_batch() == transactions[name] == 11
        for file in table.files():
            assert pq.read_schema(table.root / file.path).remove_metadata() == before[name].remove_metadata()


def test_a_second_call_finds_nothing_to_do(days: Days) -> None:
    compact(days.pipeline)
    before = on_disk(days.store)
    versions = {name: DeltaTable(str(table.root)).version() for name, table in tables(days.store).items()}
    report = compact(days.pipeline)
    assert report.rows.num_rows == 0
    assert on_disk(days.store) == before
    assert {n: DeltaTable(str(t.root)).version() for n, t in tables(days.store).items()} == versions


def test_what_comes_later_is_merged_by_a_later_call(days: Days) -> None:
    compact(days.pipeline)
    days.fill(1, since=3)
    before = contents(days.store)
    compact(days.pipeline)
    assert contents(days.store) == before
    assert len(days.store.events.files()) == 1


def test_a_dry_run_says_the_same_and_changes_nothing(days: Days) -> None:
    before = on_disk(days.store)
    said = compact(days.pipeline, dry_run=True).rows
    assert on_disk(days.store) == before
    assert foretold(said) == foretold(compact(days.pipeline).rows)


FORETOLD = ["table", "files", "files_after", "bytes", "rows_removed", "swept_files", "swept_bytes"]


def foretold(rows: pa.Table) -> list[dict[str, Any]]:
    """Everything that a dry run knows: but how many bytes a file will have."""
    found: list[dict[str, Any]] = rows.select(FORETOLD).to_pylist()
    return found


batches = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 5), st.integers(0, 400)), min_size=1, max_size=4
)


@drawn(
    5,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # making it smaller takes minutes
)
@given(
    calls=st.lists(batches, min_size=1, max_size=2),
    full=st.sampled_from([1, 4, plan.FULL]),
    enough=st.sampled_from([6, 30, plan.ENOUGH]),
    kept=st.sampled_from(["", "retention: {events: 3d, late: 1d}\n"]),
)
@example(calls=[[(41, 1, 0)], [(0, 1, 41)]], full=1, enough=6, kept="")
def test_whatever_the_store_there_are_never_more_files_and_the_dry_run_says_it(
    tmp_path_factory: pytest.TempPathFactory,
    calls: list[list[tuple[int, int, int]]],
    full: int,
    enough: int,
    kept: str,
) -> None:
    """Sparse batches far apart, spread over days, compacted now and then, with and without retention."""
    folder = tmp_path_factory.mktemp("sparse")
    (folder / "pipeline.yaml").write_text(PIPELINE + kept, encoding="utf-8")
    made = Days(folder / "pipeline.yaml")
    made.store.pin()
    batch = 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plan, "FULL", full)
        patched.setattr(plan, "ENOUGH", enough)
        for call in calls:
            for day, events, spread in call:
                made.sparse(batch, day, events, spread)
                batch += 1
            said = compact(made.pipeline, dry_run=True).rows
            before = {name: len(table.files()) for name, table in tables(made.store).items()}
            done = compact(made.pipeline).rows
            assert foretold(said) == foretold(done)
            for name, table in tables(made.store).items():
                assert name == "removals" or len(table.files()) <= before[name], name
            assert compact(made.pipeline, dry_run=True).rows.num_rows == 0
            assert compact(made.pipeline).rows.num_rows == 0


def test_a_year_of_sparse_days_becomes_few_files(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    made = Days(tmp_path / "pipeline.yaml")
    made.store.pin()
    for batch in range(15):  # three events in each, months apart
        made.sparse(batch, batch * 24, 3, 200)
    compact(made.pipeline)
    assert len(made.store.events.files()) == 1


def test_a_batch_that_is_not_complete_is_left_alone(days: Days) -> None:
    store = days.store
    for batch in (12, 13):  # accepted and in the log only, as after a crash
        event = days.event(batch, 0, MIDNIGHT + HOUR)
        store.events.append(batch, rows_of(store.events.schema, [event]))
    compact(days.pipeline)
    alone = [file for file in days.store.events.files() if batches_of(file)[-1] > 11]
    assert {batches_of(file)[0]: file.rows for file in alone} == {12: 1, 13: 1}


def test_readers_answer_the_same(days: Days) -> None:
    moment = to_moment(MIDNIGHT + HOUR)

    def answers() -> list[object]:
        reader = Reader(days.pipeline)
        life = explain(reader, "totals", moment, {"merchant": "bata"})
        return [
            reader.results("totals"),
            reader.results("totals", as_of_arrival=to_moment(MIDNIGHT + 30 * HOUR)),
            reader.panes("totals"),
            reader.late("totals"),
            reader.dead_letters(),
            reader.watermarks(),
            reader.ledger(),
            (life.stands, life.reconciled, life.notes, [outcome.took for outcome in life.panes]),
        ]

    before = answers()
    assert before[-1][1]
    compact(days.pipeline)
    assert answers() == before


def test_an_explanation_reads_the_files_of_its_day(days: Days, busy: None) -> None:
    compact(days.pipeline)
    life = explain(Reader(days.pipeline), "totals", to_moment(MIDNIGHT + HOUR), {"merchant": "bata"})
    assert (life.files, life.files_read) == (3, 1)


# Open states


def open_state(days: Days, batch: int) -> None:
    start = MIDNIGHT + 3 * DAY
    state = {
        "window_start": start,
        "window_end": start + HOUR,
        "merchant": "amul",
        "paise": batch,
        "payments": 1,
    }
    days.partials("totals", batch, [{**state, "op": "insert", "timing": "ON_TIME"}])


def test_open_states_are_merged_while_no_pipeline_runs(days: Days) -> None:
    for batch in (10, 11):
        open_state(days, batch)
    before = Reader(days.pipeline).results("totals", include_open=True)
    compact(days.pipeline)
    assert len(days.tables("totals").partials.files()) == 1
    assert Reader(days.pipeline).results("totals", include_open=True) == before


def test_open_states_belong_to_the_pipeline_that_runs(days: Days) -> None:
    for batch in (10, 11):
        open_state(days, batch)
    with exclusive(days.store.root):
        compact(days.pipeline)
    assert len(days.tables("totals").partials.files()) == 2
    assert len(days.store.events.files()) == 1


# Killed anywhere


@pytest.mark.parametrize("place", ["compact.written@11", "compact.committed@11"])
def test_killed_and_called_again(days: Days, place: str) -> None:
    before = contents(days.store)
    assert killed_at(days.file, place) == -signal.SIGKILL
    assert contents(days.store) == before
    compact(days.pipeline)
    assert contents(days.store) == before
    assert len(days.store.events.files()) == 1
    compact(days.pipeline, now=LATER)
    assert on_disk(days.store) == named(days)
    assert contents(days.store) == before


def named(days: Days) -> set[str]:
    """The files that tables are made of now."""
    return {f"{name}/{file.path}" for name, table in tables(days.store).items() for file in table.files()}


# Sweeping


def test_replaced_files_are_kept_for_a_while_and_then_go(days: Days) -> None:
    compact(days.pipeline)
    assert len(on_disk(days.store)) > len(named(days))
    assert compact(days.pipeline, now=datetime.now(UTC) + timedelta(days=6)).total("swept_files") == 0
    dry = compact(days.pipeline, now=LATER, dry_run=True)
    before = contents(days.store)
    report = compact(days.pipeline, now=LATER)
    assert (
        report.total("swept_files") == dry.total("swept_files") == 7 * 12 - 1
    )  # one pane file was not merged
    assert on_disk(days.store) == named(days)
    assert contents(days.store) == before
    assert not [folder for folder in days.store.root.rglob("data/*") if not any(folder.iterdir())]


def test_a_file_that_was_replaced_lately_stays_however_old_it_is(days: Days) -> None:
    aged(days.store, 300)
    reader = DeltaTable(str(days.store.events.root))
    compact(days.pipeline)
    assert reader.to_pyarrow_table().num_rows == 72


def test_an_abandoned_attempt_is_swept_once_it_is_old(days: Days) -> None:
    folder = abandoned(days, 5)
    compact(days.pipeline)
    assert folder.exists()
    compact(days.pipeline, now=LATER)
    assert not folder.exists()


@pytest.mark.parametrize("table", ["events", "panes"])
def test_what_a_second_attempt_at_a_task_wrote_is_never_seen_and_swept(days: Days, table: str) -> None:
    """A task that failed, was killed or ran beside another leaves its files among those that were committed."""
    of = days.store.events if table == "events" else days.tables("totals").panes
    committed = of.root / of.files()[0].path
    again = committed.with_name(f"part-00000-{'a' * 32}-0.parquet")
    shutil.copy(committed, again)
    before = contents(days.store)
    compact(days.pipeline)
    assert again.exists()
    compact(days.pipeline, now=LATER)
    assert not again.exists()
    assert contents(days.store) == before


def test_what_was_staged_by_a_run_that_was_killed_is_swept(days: Days, tmp_path: Path) -> None:
    """A link in its place is left alone."""
    staged = days.store.root / "staging" / "killed" / "rows" / "part.parquet"
    elsewhere = tmp_path / "elsewhere" / "part.parquet"
    for file in (staged, elsewhere):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"rows")
    (days.store.root / "staging" / "link").symlink_to(elsewhere.parent)
    compact(days.pipeline)
    compact(days.pipeline, now=LATER, dry_run=True)
    assert staged.exists()
    compact(days.pipeline, now=LATER)
    assert not staged.parent.parent.exists()
    assert elsewhere.exists()


@pytest.mark.parametrize("batch", [11, 12, 13])
def test_an_attempt_under_way_is_never_swept(days: Days, batch: int) -> None:
    """The batches being accepted and completed, and an output that is computed from the log."""
    folder = abandoned(days, batch)
    aged(days.store, 300)
    with exclusive(days.store.root):
        compact(days.pipeline)
        assert folder.exists()
    compact(days.pipeline)
    assert not folder.exists()


def abandoned(days: Days, batch: int) -> Path:
    """What an attempt has written that nobody committed: rows, a checksum, a lane within."""
    folder = days.tables("totals").panes.new_folder(batch)
    lane = folder / "_lc_lane=rest"
    lane.mkdir(parents=True)
    (lane / "part.parquet").write_bytes(b"rows")
    (lane / ".part.parquet.crc").write_bytes(b"sum")
    return folder


def test_a_running_pipeline_keeps_the_files_it_remembers(days: Days) -> None:
    """An engine names the files of panes that were there when it began, however long ago."""
    began = set(on_disk(days.store))
    with exclusive(days.store.root):
        compact(days.pipeline)
        aged_lock = (days.store.root / ".lock").stat().st_mtime
        compact(days.pipeline, now=LATER)
        left = on_disk(days.store)
        assert (days.store.root / ".lock").stat().st_mtime == aged_lock
    remembered = {name for name in began if name.startswith(("outputs/totals/panes", "watermarks", "ledger"))}
    assert remembered <= left
    # Of the log it keeps only what may be of the batch under way.
    assert [name.split("/")[2][:10] for name in began & left if name.startswith("events")] == ["0000000011"]
    compact(days.pipeline, now=LATER)
    assert on_disk(days.store) == named(days)


def test_the_states_that_an_interrupted_batch_started_from_stay(days: Days) -> None:
    open_state(days, 11)
    partials = days.tables("totals").partials
    (before,) = partials.files()
    folder = partials.new_folder(12)
    folder.mkdir(parents=True)
    pq.write_table(pq.read_table(partials.root / before.path), folder / "part.parquet")
    partials.commit(12, [folder / "part.parquet"], [before])
    compact(days.pipeline, now=LATER)
    assert (partials.root / before.path).exists()
    assert [file.path for file in days.tables("totals").partials.files_before(12)] == [before.path]


def test_what_is_no_folder_of_ours_is_left_alone(days: Days) -> None:
    strange = days.store.events.root / "data" / "notes"
    strange.mkdir()
    (strange / "readme.txt").write_text("mine")
    (days.store.events.root / "data" / "list.txt").write_text("mine")
    compact(days.pipeline, now=LATER)
    assert (strange / "readme.txt").exists()
    assert (days.store.events.root / "data" / "list.txt").exists()


def test_an_output_that_was_left_out_is_swept_and_stays_as_it_is(days: Days) -> None:
    text = days.file.read_text()
    days.file.write_text(text.replace("  totals:", "  others:"))
    folder = abandoned_of_totals = days.store.root / "outputs/totals/panes/data/0000000003-abandoned"
    folder.mkdir()
    (folder / "part.parquet").write_bytes(b"rows")
    before = contents(days.store)["outputs/totals/panes"]
    compact(days.pipeline, now=LATER)
    assert not abandoned_of_totals.exists()
    assert contents(days.store)["outputs/totals/panes"] == before


# Refusals


def test_two_calls_at_once_are_refused(days: Days) -> None:
    with (
        exclusive(days.store.root, COMPACT, "compact in process"),
        pytest.raises(StoreInUse, match="compact in process"),
    ):
        compact(days.pipeline)


def test_a_run_that_starts_waits_for_a_merge_of_open_states(days: Days) -> None:
    import threading

    begun, over = threading.Event(), threading.Event()

    def hold() -> None:
        with exclusive(days.store.root, holder="compact in process"):
            begun.set()
            over.wait(0.3)

    held = threading.Thread(target=hold)
    held.start()
    begun.wait()
    with exclusive(days.store.root):
        assert (days.store.root / ".lock").read_text() == f"process {os.getpid()}"
    over.set()
    held.join()


def test_too_short_a_time_to_keep_is_refused(days: Days) -> None:
    with pytest.raises(PipelineError, match=r"keep: is too short.*'5m'(.|\n)*keep 1h or more"):
        compact(days.pipeline, keep="5m")


def test_a_store_without_a_complete_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="no complete batch"):
        compact(make_days(tmp_path, days=0).pipeline)


def test_the_store_of_another_pipeline_is_refused(days: Days) -> None:
    days.file.write_text(days.file.read_text().replace("name: upi", "name: other"))
    with pytest.raises(StoreMismatch, match="belongs to pipeline upi"):
        compact(days.pipeline)
