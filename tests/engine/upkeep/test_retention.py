"""What a store forgets, what it must not, and what is written down of it."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cli.cli_kit import rows_of
from engine.upkeep.upkeep_kit import DAY, HOUR, MIDNIGHT, RETENTION, Days, contents, killed_at, make_days
from faults.faults_kit import Died
from latecomer.after.certify.certificate import Certificate, certify, check
from latecomer.after.explain.explain import explain
from latecomer.after.reading.accounts import Accounts, Span
from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.reconcile import reconcile
from latecomer.after.replay.replaying import replay
from latecomer.after.serving.correcting import correct
from latecomer.engine.upkeep.compacting import Report, compact
from latecomer.errors import LedgerError, NotCovered
from latecomer.model.durations import to_moment
from latecomer.model.windows import Session, Tumbling
from latecomer.sink.keeper import SinkKeeper
from latecomer.store import failpoints
from latecomer.store.coverage import (
    covered_since,
    covers,
    recorded_fates,
    removal_totals,
    removals,
    removed_amounts,
    removed_until,
)
from latecomer.store.delta.data_files import batches_of
from latecomer.store.holding.lock import exclusive
from latecomer.store.store import Store

# Twelve batches of six hours; the watermark is at 22:00 of the third day, the newest event is of that hour.
HORIZON = MIDNIGHT + 22 * HOUR
"""Two days before."""
GONE = 2
"""The last batch whose newest event is older."""


def keep(days: Days, written: str = RETENTION) -> Report:
    days.file.write_text(days.file.read_text().split("retention:")[0] + written)
    return compact(days.pipeline)


def batches(days: Days, table: str) -> set[int]:
    rows = getattr(days.store, table).query("select distinct batch from t")
    return set(rows.column("batch").to_pylist())


def test_batches_whose_events_are_all_old_go(days: Days) -> None:
    report = keep(days)
    assert batches(days, "events") == batches(days, "duplicates") == set(range(GONE + 1, 12))
    assert removed_until(days.store, "events") == GONE
    outcome = {row["table"]: row["rows_removed"] for row in report.rows.to_pylist()}
    assert (outcome["events"], outcome["duplicates"]) == (6 * 3, 3)


def test_the_log_is_whole_from_a_moment_on(days: Days) -> None:
    assert covered_since(days.store) is None
    everything = days.store.events.query("select event_time, batch from t").to_pylist()
    keep(days)
    since = covered_since(days.store)
    assert since is not None
    assert since <= HORIZON
    left = days.store.events.query("select event_time, batch from t").to_pylist()
    for event in everything:
        assert event in left or event["event_time"] < to_moment(since)
    newest_gone = max(event["event_time"] for event in everything if event not in left)
    assert to_moment(since - 1) == newest_gone  # and not later than it has to be


def test_what_went_is_written_down_to_the_paisa(days: Days) -> None:
    before = days.store.events.query(
        f"select batch, count(*) as n, sum(paise) as p from t where batch <= {GONE} group by batch"
    )
    keep(days)
    found = removed_amounts(days.store, "events")
    assert found == {
        (row["batch"], unit): Decimal(row[column])
        for row in before.to_pylist()
        for unit, column in (("events", "n"), ("paise", "p"))
    }
    assert removed_amounts(days.store, "duplicates")[1, "paise"] == 100
    assert recorded_fates(days.store, "totals")["events", "on_time"] == 5 * (GONE + 1)
    totals = {(row["table"], row["unit"]): row for row in removal_totals(days.store).to_pylist()}
    assert totals["events", "events"]["amount"] == 18
    assert (totals["events", "events"]["first_batch"], totals["events", "events"]["last_batch"]) == (0, GONE)


def test_twice_is_once(days: Days) -> None:
    keep(days)
    before, recorded = contents(days.store), removals(days.store).query("select * from t").num_rows
    again = compact(days.pipeline)
    assert again.total("rows_removed") == 0
    assert contents(days.store) == before
    assert removals(days.store).query("select * from t").num_rows == recorded


def test_it_goes_on_with_the_watermark(days: Days) -> None:
    keep(days)
    first = covered_since(days.store)
    days.fill(1, since=3)
    compact(days.pipeline)
    assert removed_until(days.store, "events") == GONE + 4
    assert covered_since(days.store) == (first or 0) + DAY
    assert {batch for batch, _ in removed_amounts(days.store, "events")} == set(range(GONE + 5))


def test_merged_or_not_the_same_goes(days: Days, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "lake", tmp_path / "other" / "lake")
    shutil.copy(days.file, tmp_path / "other")
    other = Days(tmp_path / "other" / days.file.name)
    compact(other.pipeline)
    keep(days)
    keep(other)
    assert contents(days.store) == contents(other.store)
    assert removed_amounts(days.store, "events") == removed_amounts(other.store, "events")


def test_a_pipeline_that_stands_still_loses_nothing(days: Days) -> None:
    """Months may pass: the watermark counts."""
    assert keep(days, "retention: {events: 400d}\n").total("rows_removed") == 0


def test_after_a_drain_the_newest_event_counts(days: Days) -> None:
    end_of_time = 253_402_300_799_999_999
    days.watermarks(12, [{"tick": 99, "at": MIDNIGHT + 3 * DAY, "watermark": end_of_time, "kind": "drain"}])
    days.ledger(12, [])
    keep(days)
    assert removed_until(days.store, "events") == GONE


def test_a_batch_with_one_young_event_keeps_the_batches_after_it(tmp_path: Path) -> None:
    days = Hasty(make_days(tmp_path, days=0).file)
    days.fill(3)
    keep(days)
    assert removed_until(days.store, "events") == 0
    assert batches(days, "events") == set(range(1, 12))


class Hasty(Days):
    """The second batch has an event from a day to come."""

    def event(self, batch: int, nth: int, at: int) -> dict[str, Any]:
        return super().event(batch, nth, at + (DAY if (batch, nth) == (1, 4) else 0))


def test_an_open_window_keeps_its_events(days: Days) -> None:
    start = MIDNIGHT + 7 * HOUR
    days.partials("totals", 11, [{"window_start": start, "window_end": start + HOUR, "merchant": "amul"}])
    keep(days)
    assert removed_until(days.store, "events") == 0


def test_what_does_not_agree_with_the_ledger_is_not_removed(days: Days) -> None:
    tampered(days.store, 1)
    before = contents(days.store)
    with pytest.raises(LedgerError, match=r"batch 1: the ledger says 6 events in the log, the table has 5"):
        keep(days)
    assert contents(days.store) == before
    assert removed_until(days.store, "events") == -1


def tampered(store: Store, batch: int) -> None:
    """Take an event out of a batch by hand."""
    (file,) = [file for file in store.events.files() if batches_of(file) == range(batch, batch + 1)]
    folder = store.events.new_folder(batch)
    folder.mkdir(parents=True)
    pq.write_table(pq.read_table(store.events.root / file.path).slice(1), folder / "part.parquet")
    store.events.rearrange([folder / "part.parquet"], [file])


def test_a_new_output_is_computed_first(days: Days) -> None:
    text = days.file.read_text().replace(
        "outputs:\n", "outputs:\n  more:\n    window: {tumbling: 1h}\n    aggregates: {n: count(*)}\n"
    )
    days.file.write_text(text)
    report = keep(days)
    assert removed_until(days.store, "events") == -1
    assert "events stay: output more is not computed yet; run the pipeline first" in report.notes


def test_a_run_with_a_longer_lateness_keeps_the_log(days: Days) -> None:
    """The file may have changed since the pipeline that runs was started."""
    text = days.file.read_text()
    days.file.write_text(text.replace("allowed_lateness: 2h", "allowed_lateness: 5d"))
    days.store.pin()
    days.file.write_text(text)
    report = keep(days)
    assert removed_until(days.store, "events") == -1
    assert "events stay: output totals was run with a longer lateness; run the pipeline first" in report.notes


# Side output and dead letters


def test_dead_letters_go_by_the_arrival_clock(days: Days) -> None:
    keep(days, "retention: {late: 1d}\n")
    assert batches(days, "dead_letters") == set(range(7, 12))  # the last one came at 23:00 of the third day
    assert batches(days, "events") == set(range(12))
    assert removed_amounts(days.store, "dead_letters")[0, "paise"] == 7
    assert covered_since(days.store) is None


def test_the_side_output_goes_only_once_it_is_corrected(days: Days) -> None:
    before = Reader(days.pipeline).late("totals").num_rows
    report = keep(days, "retention: {late: 1d}\n")
    assert report.notes == [
        "the side output of totals stays where it is not corrected yet: latecomer correct FILE totals"
    ]
    assert Reader(days.pipeline).late("totals").num_rows == before
    added = correct(Reader(days.pipeline), "totals")
    assert compact(days.pipeline).notes == []
    left = Reader(days.pipeline).late("totals")
    assert set(left["batch"].to_pylist()) == set(range(7, 12))
    assert removed_amounts(days.store, "late", "totals")[3, "paise"] == 305
    # What was corrected stays corrected, and is not corrected again.
    assert correct(Reader(days.pipeline), "totals").num_rows == 0
    assert added.num_rows == before


# Killed anywhere


PLACES = (
    f"retention.events.recorded@{GONE}",
    f"retention.events.removed@{GONE}",
    f"retention.duplicates.removed@{GONE}",
    "retention.dead_letters.recorded@6",
)


@pytest.mark.parametrize("place", PLACES)
def test_interrupted_and_called_again(
    days: Days, tmp_path: Path, deadly: pytest.MonkeyPatch, place: str
) -> None:
    def interrupted() -> None:
        deadly.setenv(failpoints.VARIABLE, place)
        with pytest.raises(Died):
            compact(days.pipeline)
        deadly.delenv(failpoints.VARIABLE)

    _called_again(days, tmp_path, interrupted)


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
def test_killed_and_called_again(days: Days, tmp_path: Path, place: str) -> None:
    def killed() -> None:
        assert killed_at(days.file, place) == -signal.SIGKILL

    _called_again(days, tmp_path, killed)


def _called_again(days: Days, tmp_path: Path, disturbed: Callable[[], None]) -> None:
    """A compaction that came to nothing and another leave what one leaves that nothing disturbs."""
    days.file.write_text(days.file.read_text() + RETENTION)
    shutil.copytree(tmp_path, tmp_path / "undisturbed", ignore=shutil.ignore_patterns("undisturbed"))
    undisturbed = Days(tmp_path / "undisturbed" / days.file.name)
    compact(undisturbed.pipeline)
    disturbed()
    compact(days.pipeline)
    assert contents(days.store) == contents(undisturbed.store)
    for table in ("events", "duplicates", "dead_letters"):
        assert removed_amounts(days.store, table) == removed_amounts(undisturbed.store, table)


def test_from_the_record_on_it_counts_as_gone(days: Days) -> None:
    days.file.write_text(days.file.read_text() + RETENTION)
    assert killed_at(days.file, f"retention.events.recorded@{GONE}") == -signal.SIGKILL
    assert 0 in batches(days, "events")
    assert covered_since(days.store) is not None


def test_beside_a_running_pipeline_too(days: Days) -> None:
    engine = days.store
    engine.events.files()
    with exclusive(engine.root):
        keep(days)
        engine.events.append(12, rows_of(engine.events.schema, [days.event(12, 0, MIDNIGHT + 3 * DAY)]))
    assert batches(days, "events") == set(range(GONE + 1, 13))


# What the log no longer covers is refused, or said


@pytest.fixture
def covered(days: Days) -> Days:
    keep(days)
    return days


def test_a_replay_is_refused(covered: Days) -> None:
    with pytest.raises(
        NotCovered, match=r"a replay needs the whole log.* batches 0 to 2 .*2026-04-25T16:00:00.000001Z"
    ):
        replay(covered.pipeline)


def test_checking_a_certificate_is_refused(days: Days) -> None:
    made: Certificate = certify(days.pipeline, "totals")
    keep(days)
    with pytest.raises(NotCovered, match="computing results again needs the whole log"):
        check(days.pipeline, "totals", made)


def test_a_rebuild_is_refused_for_windows_before_it(covered: Days) -> None:
    for since in (None, MIDNIGHT):
        with pytest.raises(
            NotCovered, match=r"a rebuild of output totals needs every event.*--from 2026-04-25T16:00"
        ):
            rebuilding.plan(covered.pipeline, "totals", since)


def test_reconciling_with_the_log_is_refused_for_windows_before_it(covered: Days) -> None:
    for since in (None, to_moment(MIDNIGHT)):
        with pytest.raises(
            NotCovered, match=r"reconciling with the log needs every event.*--from 2026-04-25T16:00"
        ):
            reconcile(covered.pipeline, "totals", Against("log"), since=since)


def test_from_which_windows_on_the_log_holds_everything(covered: Days) -> None:
    since = covered_since(covered.store)
    assert since is not None
    assert covers(covered.store, since, Tumbling("1h"))
    assert not covers(covered.store, since - 1, Tumbling("1h"))
    assert not covers(covered.store, None)
    assert not covers(covered.store, since, Session("1h"))
    assert covers(covered.store, since + HOUR, Session("1h"))


def test_an_explanation_says_that_events_are_gone(covered: Days) -> None:
    found = explain(Reader(covered.pipeline), "totals", to_moment(MIDNIGHT + HOUR), {"merchant": "bata"})
    assert found.notes[0].startswith(
        "retention has removed events from the log: it is whole from 2026-04-25T16:00"
    )
    assert not found.reconciled
    assert "retention has removed them" in found.notes[1]
    late = explain(Reader(covered.pipeline), "totals", to_moment(MIDNIGHT + 2 * DAY), {"merchant": "amul"})
    assert late.reconciled
    assert late.notes == []


def test_removed_side_output_is_no_contradiction(days: Days) -> None:
    correct(Reader(days.pipeline), "totals")
    keep(days, "retention: {late: 1d}\n")
    missed = MIDNIGHT - DAY  # batch 0 had an event for it
    found = explain(Reader(days.pipeline), "totals", to_moment(missed), {"merchant": None})
    assert found.notes == []


def test_a_reconciliation_says_what_it_cannot_count_any_more(days: Days) -> None:
    totals = Reader(days.pipeline).book("totals")
    assert Accounts(days.store, totals, Span()).dead_letters().notes == []
    correct(Reader(days.pipeline), "totals")
    keep(days, "retention: {late: 1d}\n")
    assert Accounts(days.store, totals, Span()).dead_letters().notes == [
        "retention has removed the dead letters of batches 0 to 6: what was there is not counted",
        "retention has removed the side output of batches 0 to 6: what was there is not counted",
    ]


SINKS = "    late_to: [{jsonl: late}]\ndead_letters_to: [{jsonl: dead}, {sqlite: dead.db}]\nledger:"


def test_what_a_sink_lacks_stays(days: Days, tmp_path: Path) -> None:
    """Panes are never removed; side output and dead letters are, and a sink may be down for long."""
    correct(Reader(days.pipeline), "totals")
    days.file.write_text(days.file.read_text().replace("ledger:", SINKS))
    report = keep(days)
    assert (removed_until(days.store, "dead_letters"), removed_until(days.store, "late", "totals")) == (
        -1,
        -1,
    )
    assert (
        f"dead letters stay from batch 0 on, which jsonl sink {tmp_path / 'dead'} does not have yet"
        in str(report.notes)
    )
    assert f"the side output of totals stays from batch 0 on, which jsonl sink {tmp_path / 'late'}" in str(
        report.notes
    )
    brought_up(days, 4)
    keep(days)
    assert (removed_until(days.store, "dead_letters"), removed_until(days.store, "late", "totals")) == (4, 4)
    assert batches(days, "dead_letters") == set(range(5, 12))
    brought_up(days, 11)
    report = keep(days)
    assert not any("stay" in note for note in report.notes)
    gone = removed_until(days.store, "dead_letters")
    assert gone == removed_until(days.store, "late", "totals") > 4
    # Nothing was lost on the way, and what is in the sinks stays there.
    for folder in ("late", "dead"):
        files = sorted((tmp_path / folder).glob("*.jsonl"))
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        assert [json.loads(line)["batch"] for line in lines] == list(range(12)), folder


def test_a_sink_that_is_added_afterwards_gets_what_is_left(days: Days, tmp_path: Path) -> None:
    keep(days)
    gone = removed_until(days.store, "dead_letters")
    assert gone >= 0
    days.file.write_text(days.file.read_text().replace("ledger:", SINKS))
    brought_up(days, 11)
    assert len(list((tmp_path / "dead").glob("*.jsonl"))) == 11 - gone


def brought_up(days: Days, complete: int) -> None:
    keeper = SinkKeeper(days.store)
    keeper.start(complete)
    keeper.finish()
    keeper.close()
