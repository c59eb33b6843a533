"""Runs, and what is computed again from their logs, in this process: no Spark is asked for anything, what is right is
confirmed, and what is broken is found."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from latecomer.after.certify.certificate import certify, check
from latecomer.after.rebuild import rebuilding
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.reconcile import reconcile
from latecomer.after.replay import replaying
from latecomer.after.replay.replaying import replay
from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.errors import LedgerError, StoreError
from latecomer.log import logged_events as logged
from latecomer.log import readable
from latecomer.log.timeline.keeper import Section, TimelineKeeper
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.strategies import Bounded
from latecomer.spark import runner
from latecomer.spark.base import JobResults
from latecomer.store.store import open_store
from properties.test_options_on_spark import crowd
from properties.test_rebuild_on_spark import require_right
from spark_kit import PAYLOAD, Batch, Bench, as_lines, require_equal, stored_entries
from timeline_kit import watermarks_of

AGGREGATES = {"rows": "count(*)", "paise": "sum(paise)", "mean": "avg(paise)"}
LATE = {"allowed_lateness": "6us", "by": ("key",), "aggregates": AGGREGATES}
OUTPUTS: dict[str, dict[str, Any]] = {
    "updated": {"window": {"tumbling": "5us", "offset": "2us"}, "late": "update", "too_late": "side_output"},
    "taken_back": {"window": {"sliding": "7us", "every": "3us"}, "late": "retract"},
    "aside": {"window": {"sliding": "6us", "every": "3us"}, "late": "side_output", "by": ()},
    "dropped": {"window": {"tumbling": "5us"}, "late": "drop", "where": "ok and paise > 3"},
    "added": {"window": {"tumbling": "4us"}, "late": "update", "accumulation": "discarding"}
    | {"aggregates": {"rows": "count(*)", "paise": "sum(paise)"}},
    "derived": {"window": {"tumbling": "5us"}, "columns": {"double": "paise * 2"}}
    | {"aggregates": {"rows": "count(*)", "most": "max(double)"}, "by": (), "too_late": "side_output"},
    "days": {"window": {"calendar": "day", "zone": "Europe/Berlin"}, "trigger": {"early": {"count": 3}}},
    "visits": {"window": {"session": "4us"}, "late": "retract", "too_late": "side_output"},
    "empty": {"window": {"tumbling": "5us"}, "late": "update", "emit_empty": True},
    "all_of_it": {"window": {"global": True}, "allowed_lateness": 0, "trigger": {"early": {"count": 5}}},
}


class NoSpark:
    """A session of which nothing may be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark is asked for {name}")


class Alone(Bench):
    """A bench whose engine has no Spark."""

    @property
    def session(self) -> SparkSession:
        return self.spark


def bench_in(folder: Path, **more: Any) -> Alone:
    outputs = {name: Output(**{**LATE, **each}) for name, each in OUTPUTS.items()}
    strategy = Bounded("1us", every="1us", idle_after="4us")
    return Alone(cast("SparkSession", NoSpark()), folder, strategy, outputs, PAYLOAD, **more)


def arrivals() -> list[Batch]:
    """Arrivals with ids, of which some come twice; a third of them is not ok."""
    found: list[Batch] = []
    for number, batch in enumerate(crowd(11, rows=120, most=3)):
        if isinstance(batch, Heartbeat):
            found.append(batch)
            continue
        found.append(
            [
                replace(
                    each,
                    payload={**each.payload, "ok": each.payload["paise"] > 3},
                    event_id=f"{nth // 2 * 2}" if nth % 8 < 2 else f"{nth}-{number}",
                )
                for nth, each in enumerate(batch)
            ]
        )
    return found


def all_read() -> list[Arrival]:
    return [row for batch in arrivals() if not isinstance(batch, Heartbeat) for row in batch]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """A store of ten outputs, made without Spark, of which the ledger is the oracle's."""
    bench, batches = bench_in(tmp_path_factory.mktemp("whole")), arrivals()
    store = bench.run(batches)
    outcome = bench.oracle(batches, dropped=lambda row: row["ok"])
    require_equal(as_lines(stored_entries(store)), as_lines(outcome.ledger))
    assert store.duplicates.files()
    return bench


def test_where_the_timeline_stood_is_known_without_its_ticks(whole: Alone) -> None:
    store = open_store(whole.pipeline)
    before = None
    for batch in range(store.ledger.last_batch() + 1):
        fresh, whole_keeper = (TimelineKeeper(store.watermarks, whole.strategy) for _ in range(2))
        section = whole_keeper.section(batch, batch)
        assert fresh.reached(batch) == whole_keeper.reached(batch) == section.end
        assert section.before == before
        before = Section(section.rows).end
    assert before is not None


def test_ticks_that_are_far_apart_are_found_batch_by_batch() -> None:
    far = 1 << 50
    ticks = {(batch, far + tick): 10 * batch + tick for batch in range(5_000) for tick in range(2)}
    events = pa.table({"batch": [4_999, 0, 7], "tick": [far + 1, far, far + 1]})
    timeline = watermarks_of(ticks)
    assert timeline.over(events).tolist() == [49_991, 0, 71]
    for batch, tick in ((4_999, far + 2), (4_999, far - 1), (5_000, far), (-1, far)):
        with pytest.raises(StoreError, match="not on the timeline"):
            timeline.over(pa.table({"batch": [batch], "tick": [tick]}))
    with pytest.raises(StoreError, match="not on the timeline"):
        watermarks_of({}).over(events)
    further = watermarks_of({(0, -(1 << 62)): 1, **{(batch, 1 << 62): batch for batch in range(9)}})
    assert further.over(pa.table({"batch": [8, 0], "tick": [1 << 62, -(1 << 62)]})).tolist() == [8, 1]


TAMPERED = {
    "ledger": ("ledger", "unit = 'paise' and output = 'updated' and batch = 0", "output updated, paise"),
    "late": ("outputs/aside/late", "batch = 2", "output aside, assignments: the ledger says side_output"),
    "panes": (
        "outputs/added/panes",
        "key = '4'",
        "output added, assignments: its panes and open windows hold",
    ),
    "events": ("events", "event_id = '3-0'", "output days, events: the ledger says"),
    "duplicates": ("duplicates", "batch = 0", "duplicate"),
}


def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts Spark fails."""

    def started(*_: object) -> None:
        raise AssertionError("Spark was started")

    for module in (replaying, rebuilding):
        monkeypatch.setattr(module, "build_session", started)


def tampered(whole: Alone, folder: Path, table: str) -> Alone:
    """A copy of the store, of which rows of a table are gone."""
    shutil.copytree(whole.folder, folder)
    path, predicate, _ = TAMPERED[table]
    assert DeltaTable(str(folder / "store" / path)).delete(predicate)["num_deleted_rows"] > 0
    return bench_in(folder)


def test_a_whole_store_is_checked_without_spark(whole: Alone) -> None:
    assert check_ledger(whole.pipeline, whole.spark) == []


@pytest.mark.parametrize(
    "table",
    [pytest.param(each, marks=[pytest.mark.long] * (nth > 1)) for nth, each in enumerate(TAMPERED)],
)
def test_what_is_deleted_is_found_without_spark(whole: Alone, tmp_path: Path, table: str) -> None:
    bench = tampered(whole, tmp_path / "copy", table)
    found = check_ledger(bench.pipeline, bench.spark)
    assert any(TAMPERED[table][2] in each for each in found), found


def test_a_store_is_replayed_without_spark(whole: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    no_spark(monkeypatch)
    names = ["taken_back", "added", "days", "visits", "empty"]
    assert replay(whole.pipeline, outputs=names).equal


def test_a_store_is_computed_at_once_without_spark(whole: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    no_spark(monkeypatch)
    names = ["taken_back", "aside", "dropped", "added"]
    assert replay(whole.pipeline, outputs=names, one_shot=True).equal


def test_a_log_of_many_parts_is_computed_as_one(
    whole: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged, "MOST_AT_ONCE", 7)
    no_spark(monkeypatch)
    assert check_ledger(whole.pipeline, whole.spark) == []
    assert replay(whole.pipeline, outputs=["updated"], one_shot=True).equal
    bench, read = rebuilt_copy(whole, tmp_path / "copy"), all_read()
    rebuilding.apply(bench.pipeline, "taken_back")
    require_right(open_store(bench.pipeline), "taken_back", bench.outputs["taken_back"], read)


def test_a_replay_with_other_settings_needs_no_spark(whole: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    no_spark(monkeypatch)
    found = replay(whole.pipeline, changes={"watermark.delay": "20us"}, outputs=["updated"])
    assert not found.outputs["updated"].ledger.equal


@pytest.mark.parametrize("output", ["updated", "days"])
def test_a_certificate_is_checked_without_spark(
    whole: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    no_spark(monkeypatch)
    certificate = certify(whole.pipeline, output)
    found = check(whole.pipeline, output, certificate)
    assert found.reproduced
    assert found.stands
    changed = replace(certificate, sha256="0" * 64)
    assert not check(whole.pipeline, output, changed).reproduced


def test_a_log_that_lacks_an_event_reproduces_nothing_without_spark(
    whole: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_spark(monkeypatch)
    bench = tampered(whole, tmp_path / "copy", "events")
    with pytest.raises(LedgerError, match="batch 0, output updated, events: received 40"):
        check(bench.pipeline, "updated", certify(whole.pipeline, "updated"))


LOG = Against("log", None, {})


def test_results_are_reconciled_with_the_log_without_spark(whole: Alone) -> None:
    """The gap is what was dropped or set aside, or is still open, and nothing else."""
    for name in whole.outputs:
        found = reconcile(whole.pipeline, name, LOG, spark=whole.spark)
        assert found.explained, (name, found.gaps, found.notes)
        assert found.rows.num_rows, name


def rebuilt_copy(whole: Alone, folder: Path) -> Alone:
    shutil.copytree(whole.folder, folder)
    return bench_in(folder)


def rebuild(bench: Alone, name: str) -> None:
    """Rebuild a range, and then all: each time it is what a batch job says."""
    for within in ((3, 9), None):
        applied = rebuilding.apply(bench.pipeline, name, *(within or ()))
        require_right(open_store(bench.pipeline), name, bench.outputs[name], all_read(), within)
    assert applied.batch is not None
    assert rebuilding.plan(bench.pipeline, name).record.changes == 0


def test_rebuilt_windows_are_a_batch_job_without_spark(
    whole: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_spark(monkeypatch)
    bench = rebuilt_copy(whole, tmp_path / "copy")
    rebuild(bench, "dropped")
    assert check_ledger(bench.pipeline, bench.spark) == []


@pytest.mark.long
def test_rebuilds_of_all_kinds_are_replayed_without_spark(
    whole: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_spark(monkeypatch)
    bench = rebuilt_copy(whole, tmp_path / "copy")
    for name in ("updated", "taken_back", "aside", "dropped", "added", "visits"):
        rebuild(bench, name)
    assert check_ledger(bench.pipeline, bench.spark) == []
    assert replay(bench.pipeline).equal


def test_a_large_store_is_computed_in_tasks(
    spark: SparkSession, whole: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LARGE", 0)
    monkeypatch.setattr(readable, "LOGGED_BYTES", 1)
    asked: list[str] = []
    run = runner.SparkRunner.run

    def watched(self: runner.SparkRunner, what: str, *args: Any) -> JobResults:
        asked.append(what)
        made = run(self, what, *args)
        assert len(made.tasks) == min(self.cores, 4) or what.startswith("batch")
        return made

    monkeypatch.setattr(runner.SparkRunner, "run", watched)
    assert check_ledger(whole.pipeline, spark) == []
    assert reconcile(whole.pipeline, "dropped", LOG, spark=spark).explained
    bench = rebuilt_copy(whole, tmp_path / "copy")
    rebuilding.apply(bench.pipeline, "dropped", spark=spark)
    require_right(open_store(bench.pipeline), "dropped", bench.outputs["dropped"], all_read())
    names = ["fates of updated", "the truth of dropped", "what dropped dropped", "rebuild of dropped"]
    assert not {*names} - {*asked}
