"""The figures of a run: every metric of the inventory, and from what the engine reports."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from latecomer.engine.ledger.report import BatchReport
from latecomer.log.readable import Received
from latecomer.model.ledger import Entry
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.observe.figures import Figures
from latecomer.observe.inventory import METRICS, REST, PartitionNames, full_name
from latecomer.observe.recorded import BOUNDS, delays_in
from latecomer.store.delta.table import Table, moments
from latecomer.store.layout import TIMESTAMP
from observe.observe_kit import read, value, watched_shop

NOW = 1_780_000_000_000_000
SECOND = 1_000_000


def report(batch: int = 0, **more: object) -> BatchReport:
    fates = {Fate.ON_TIME: Decimal(6), Fate.SIDE_OUTPUT: Decimal(3), Fate.DEAD_LETTER: Decimal(1)}
    outcome: dict[str, object] = {
        "kind": "data",
        "received": Received(10, 9, 0, 1),
        "seconds": 2.0,
        "watermark": NOW - 90 * SECOND,
        "newest_arrival": NOW - 5 * SECOND,
        "entries": [Entry(batch, "totals", "events", Decimal(10), fates, late_at_source=4)],
        "published_at": NOW,
        "stages": {"log": 0.7, "windowing": 1.2},
        "partitions": {"a": NOW - 90 * SECOND, "b": NOW - 10 * SECOND},
        "unread": 7,
    }
    return BatchReport(batch, **{**outcome, **more})  # type: ignore[arg-type]


@pytest.fixture
def figures(tmp_path: Path) -> Figures:
    return Figures(watched_shop(tmp_path), clock=lambda: NOW)


def test_every_metric_of_the_inventory_is_served_and_no_other(figures: Figures) -> None:
    figures.batch(report())
    registry = CollectorRegistry()
    registry.register(figures)
    served = {
        family.name: family for family in text_string_to_metric_families(generate_latest(registry).decode())
    }
    expected = {full_name(metric).removesuffix("_total"): metric for metric in METRICS}
    assert served.keys() == expected.keys()
    for name, family in served.items():
        metric = expected[name]
        assert (family.type, family.documentation) == (metric.kind.value, metric.help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.all_labels)


def test_counters_are_there_before_the_first_batch(figures: Figures) -> None:
    before = read(figures)
    for fate in Fate:
        assert value(before, "events_total", output="totals", fate=fate.value) == 0
    assert value(before, "corrections_total", output="totals", kind="late_pane") == 0
    assert value(before, "spark_jobs_total") == 0
    assert value(before, "ready") == 0
    assert value(before, "watermark_lag_budget_seconds") == 60
    assert ("latecomer_watermark_lag_seconds", ()) not in before, (
        "no watermark yet: no lag rather than a wrong one"
    )


def test_what_a_batch_reports(figures: Figures) -> None:
    figures.batch(report(0))
    figures.batch(report(1))
    found = read(figures)
    assert value(found, "rows_total") == 20
    assert value(found, "received_total", output="totals") == 20
    assert value(found, "events_total", output="totals", fate="side_output") == 6
    assert value(found, "late_at_source_total", output="totals") == 8
    assert value(found, "ledger_difference", output="totals", unit="events") == 0
    assert value(found, "batches_total", kind="data") == 2
    assert value(found, "last_batch") == 1
    assert value(found, "rows_per_second") == 5
    assert value(found, "source_unread_rows") == 7
    assert value(found, "watermark_lag_seconds") == 90
    assert value(found, "source_lag_seconds") == 5
    assert value(found, "partition_watermark_lag_seconds", partition="b") == 10
    assert value(found, "partition_holds_watermark", partition="a") == 1
    assert value(found, "batch_seconds_count", stage="log") == 2
    assert value(found, "batch_seconds_sum", stage="windowing") == 2.4
    assert value(found, "batch_seconds_bucket", stage="log", le="0.5") == 0
    assert value(found, "batch_seconds_bucket", stage="log", le="1.0") == 2


def test_delays_are_counted_in_the_files_of_the_log(tmp_path: Path) -> None:
    events = Table(tmp_path / "events", pa.schema([("event_time", TIMESTAMP), ("arrival_time", TIMESTAMP)]))
    delays = [-5 * SECOND, 0, SECOND, SECOND + 1, 59 * SECOND, 60 * SECOND, 100_000 * SECOND]
    rows = {"event_time": [NOW] * len(delays), "arrival_time": [NOW + delay for delay in delays]}
    events.append(0, pa.table({name: moments(each) for name, each in rows.items()}))
    found = delays_in(events, events.files())
    assert dict(zip(BOUNDS, found.within, strict=True)) == {
        bound: sum(delay <= bound * SECOND for delay in delays) for bound in BOUNDS
    }
    assert found.events == 7
    assert found.seconds == pytest.approx(0 + 0 + 1 + 1.000001 + 59 + 60 + 100_000)


def test_an_unbalanced_line_shows(figures: Figures) -> None:
    figures.batch(report(entries=[Entry(0, "totals", "events", Decimal(10), {Fate.ON_TIME: Decimal(9)})]))
    assert value(read(figures), "ledger_difference", output="totals", unit="events") == 1


@pytest.mark.parametrize("watermark", [BEGIN_OF_TIME, END_OF_TIME])
def test_without_a_watermark_there_is_no_lag(figures: Figures, watermark: int) -> None:
    figures.batch(report(0))
    figures.batch(report(1, watermark=watermark, partitions={}))
    found = read(figures)
    assert not [name for name, _ in found if name.startswith("latecomer_watermark_lag_seconds")]


def test_thousands_of_partitions_are_few_labels(figures: Figures) -> None:
    for batch in range(30):
        far = {f"p{nth}": NOW - (nth * 7919 + batch * 104729) % 5000 * SECOND for nth in range(5000)}
        figures.batch(report(batch, partitions=far))
        read(figures)
    labels = {labels for name, labels in read(figures) if name == "latecomer_partition_watermark_lag_seconds"}
    assert len(labels) <= 21
    assert len(figures._names._used) <= 200
    slowest = max(
        amount
        for (name, _), amount in read(figures).items()
        if name == "latecomer_partition_watermark_lag_seconds"
    )
    assert slowest == 4999, "whatever it is called, the slowest is there"
    assert value(read(figures), "partitions") == 5000


def test_names_run_out_and_the_slowest_still_counts() -> None:
    names = PartitionNames(at_once=2, ever=2)
    assert names.shown({"a": 5, "b": 6}) == {"a": 5, "b": 6}
    assert names.shown({"a": 5, "c": 1, "d": 2}) == {REST: 1, "a": 5}
    assert names.of("c") == REST


def test_hostile_names_of_partitions_are_text(figures: Figures) -> None:
    hostile = {
        'quote"\nline\\': NOW - SECOND,
        "x" * 5000: NOW - 2 * SECOND,
        "half \udc80": NOW,
        "": NOW - 3 * SECOND,
    }
    figures.batch(report(partitions=hostile))
    name = "latecomer_partition_watermark_lag_seconds"
    shown = {dict(labels)["partition"] for each, labels in read(figures) if each == name}
    assert shown == {'quote"\nline\\', "x" * 99 + "…", "half ?", "(none)"}


def test_a_fault_of_the_metrics_does_not_stop_the_run(
    figures: Figures, caplog: pytest.LogCaptureFixture
) -> None:
    figures.batch(report(0, stages={"no such stage": 1.0}))
    figures.batch(report(1, stages={"no such stage": 1.0}))
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "a batch could not be counted for the metrics"
    ]
    assert read(figures)


def test_a_backfill_shows(figures: Figures) -> None:
    figures.batch(report(0, kind="rebuild"))
    assert value(read(figures), "backfill_under_way", kind="rebuild") == 1
    figures.clock = lambda: NOW + 180 * SECOND
    assert value(read(figures), "backfill_under_way", kind="rebuild") == 0


def test_the_first_load_is_a_backfill_until_it_is_within_its_budget(figures: Figures) -> None:
    figures.backfills.begin_load(NOW)
    figures.batch(report(0))
    assert value(read(figures), "backfill_under_way", kind="history") == 1
    figures.batch(report(1, watermark=NOW - 59 * SECOND))
    assert value(read(figures), "backfill_under_way", kind="history") == 0


def test_the_first_load_is_a_backfill_for_a_day_at_most(figures: Figures) -> None:
    figures.backfills.begin_load(NOW)
    figures.clock = lambda: NOW + 86_401 * SECOND
    assert value(read(figures), "backfill_under_way", kind="history") == 0
