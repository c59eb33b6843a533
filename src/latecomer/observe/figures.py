"""The metrics of a run, batch by batch, as Prometheus reads them.

They come from the report of each batch, and from the files of panes that it wrote. No Spark job is started for them.
What changes between batches, the lag of the watermark and of the sinks, is measured at each request. An error here is
logged once and does not stop the run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from latecomer.config.models import Pipeline
from latecomer.errors import LatecomerError
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.panes import Op, Timing
from latecomer.model.publications import lag
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.observe.check import Backfills
from latecomer.observe.history import SECOND, PipelineHistory, Sums
from latecomer.observe.inventory import (
    BACKFILLS,
    BATCH_SECONDS,
    BATCH_STAGES,
    BY_NAME,
    CORRECTIONS,
    METRICS,
    Kind,
    Metric,
    PartitionNames,
    full_name,
    label,
)
from latecomer.observe.recorded import RecordedDelays, delays_in, pane_counts, read_history
from latecomer.spark.base import TaskTotals
from latecomer.store.delta.table import Table
from latecomer.store.files import is_url
from latecomer.store.holding.fences import lease_over
from latecomer.store.publications import wall_clock
from latecomer.store.store import Store

if TYPE_CHECKING:
    from latecomer.engine.ledger.report import BatchReport
    from latecomer.engine.pipeline import Engine

LOG = logging.getLogger(__name__)
TRENDS_EVERY = 60 * SECOND
"""Trends over days are not computed for every request."""
EVERY_SECONDS = 10.0
_SHARED = ("events", "duplicates", "dead_letters", "repairs", "watermarks", "ledger", "publications")
_OF_OUTPUT = ("panes", "partials", "late", "dead_letters")
Labels = tuple[str, ...]
_KINDS = ("data", "heartbeat", "drain", "rebuild", "repair")


class Histogram:
    """Counts by size."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.within = [0] * len(bounds)
        self.count, self.sum = 0, 0.0

    def observe(self, value: float) -> None:
        self.count += 1
        self.sum += value
        for nth, bound in enumerate(self.bounds):
            self.within[nth] += value <= bound

    def add(self, delays: RecordedDelays) -> None:
        self.count += delays.events
        self.sum += delays.seconds
        self.within = [sum(pair) for pair in zip(self.within, delays.within, strict=True)]


class Figures(Collector):
    """The metrics of a run. `batch` is called after each batch, `collect` at each request."""

    def __init__(self, pipeline: Pipeline, clock: Callable[[], int] = wall_clock) -> None:
        self.pipeline, self.clock = pipeline, clock
        self.history = PipelineHistory()
        self.backfills = Backfills(pipeline.store_path, list(pipeline.outputs), pipeline.alerts.lag)
        self.sizes = SizeWatch()
        self._engine: Engine | None = None
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {metric.name: {} for metric in METRICS}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        self._names = PartitionNames()
        self._marks: dict[str, int] = {}
        self._watermark = self._newest_arrival = BEGIN_OF_TIME
        self._trends_at = -TRENDS_EVERY
        self._failed = False
        self._leased = pipeline.lease is not None or is_url(pipeline.store_path)
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Start every counter at 0: Prometheus loses the first event of a counter that appears with it."""
        outputs = self.pipeline.outputs
        counters: dict[str, tuple[Iterable[str], ...]] = {
            "upkeep_seconds_total": (),
            "upkeep_failures_total": (),
            "batches_total": (_KINDS,),
            "rows_total": (),
            "received_total": (outputs,),
            "late_at_source_total": (outputs,),
            "events_total": (outputs, Fate),
            "panes_total": (outputs, Timing, Op),
            "corrections_total": (outputs, CORRECTIONS),
            "ledger_difference": (outputs, (EVENTS, ASSIGNMENTS, *self.pipeline.ledger)),
        }
        for name, labels in counters.items():
            for each in product(*labels):
                self._set(name, 0, *each)
        self._histograms["lateness_seconds"] = {(): Histogram(BY_NAME["lateness_seconds"].buckets)}
        self._histograms["batch_seconds"] = {(stage,): Histogram(BATCH_SECONDS) for stage in BATCH_STAGES}

    # What the run reports

    def begin(self, engine: Engine) -> None:
        """An engine is about to start. Its earlier batches are read from its store, in a thread beside the run."""
        engine.measured = True
        timeline = engine.keeper.timeline
        with self._lock:
            self._engine = engine
            self._watermark, self._newest_arrival = timeline.watermark, timeline.newest_arrival
            self._marks = timeline.marks()
            self._set("last_batch", engine.last)
            if engine.last < 0:
                self.backfills.begin_load(self.clock())
        self.sizes.start(engine.store)
        threading.Thread(
            target=self._read_history, args=(engine.store, engine.last), name="latecomer-history", daemon=True
        ).start()

    def _read_history(self, store: Store, last: int) -> None:
        """Read the fates of events before this run."""
        with self._excused("what came before this run cannot be read for the metrics"):
            for output, at, sums in read_history(store, self.clock(), last):
                with self._lock:
                    self.history.add(output, at, sums)
        with self._lock:
            self._trends_at = -TRENDS_EVERY

    def batch(self, report: BatchReport) -> None:
        """A batch is complete."""
        with self._excused("a batch could not be counted for the metrics"):
            panes, engine = self._published(report), self._engine
            delays = delays_in(engine.store.events, report.events) if engine and report.events else None
            with self._lock:
                self._count(report, panes)
                if delays is not None:
                    self._histograms["lateness_seconds"][()].add(delays)

    def close(self) -> None:
        """The run is over."""
        self.sizes.stop()

    def _published(self, report: BatchReport) -> dict[str, dict[tuple[str, str], int]]:
        """The panes of a batch by output, timing and op, counted in the files that it wrote."""
        outputs = () if self._engine is None else self._engine.outputs
        return {
            each.name: pane_counts(each.tables.panes, files, report.batch)
            for each in outputs
            if (files := report.panes.get(each.name))
        }

    def _count(self, report: BatchReport, panes: Mapping[str, Mapping[tuple[str, str], int]]) -> None:
        published = report.published_at or self.clock()
        self._watermark = report.watermark
        if report.partitions:
            self._marks = dict(report.partitions)
        self._add("batches_total", 1, report.kind)
        self._add("rows_total", report.received.rows)
        self._set("last_batch", report.batch)
        self._set("last_batch_timestamp_seconds", published / SECOND)
        if report.kind == "data":
            self._newest_arrival = max(self._newest_arrival, report.newest_arrival)
            self._set("rows_per_second", report.received.rows / report.seconds if report.seconds > 0 else 0)
        if report.unread is not None:
            self._set("source_unread_rows", report.unread)
        for stage, seconds in report.stages.items():
            self._histograms["batch_seconds"][(stage,)].observe(seconds)
        for output in self.pipeline.outputs:
            self.history.add(output, published, self._count_panes(output, panes.get(output, {})))
        for entry in report.entries:
            self._add("ledger_difference", float(entry.difference), entry.output, entry.unit)
            if entry.unit != EVENTS:
                continue
            self._add("received_total", float(entry.received), entry.output)
            self._add("late_at_source_total", entry.late_at_source, entry.output)
            for fate, amount in entry.fates.items():
                self._add("events_total", float(amount), entry.output, fate)
            aside = int(entry.fates.get(Fate.SIDE_OUTPUT, 0))
            self.history.add(entry.output, published, Sums(int(entry.received), aside))
        self.history.forget(published)
        self.backfills.batch(report.kind, published, report.lag)

    def _count_panes(self, output: str, counts: Mapping[tuple[str, str], int]) -> Sums:
        for (timing, op), amount in counts.items():
            self._add("panes_total", amount, output, timing, op)
        late = counts.get((Timing.LATE.value, Op.INSERT.value), 0)
        rebuilt = counts.get((Timing.CORRECTION.value, Op.INSERT.value), 0)
        self._add("corrections_total", late, output, "late_pane")
        self._add("corrections_total", rebuilt, output, "rebuilt")
        return Sums(late_panes=late, rebuilt=rebuilt)

    @contextmanager
    def _excused(self, what: str) -> Iterator[None]:
        """Log the first error of the metrics, and let no error stop the run."""
        try:
            yield
        except Exception as error:
            if not self._failed:
                self._failed = True
                LOG.warning("%s (%s: %s); the run goes on", what, type(error).__name__, error)

    # What is read

    @property
    def is_ready(self) -> bool:
        """Whether the run reads its source."""
        return self._engine is not None and self._engine.started

    def collect(self) -> Iterator[Family]:
        """Every metric of the inventory, as it is now."""
        with self._excused("the metrics are not whole"), self._lock:
            self._measure_now()
        with self._lock:
            families = [self._family(metric) for metric in METRICS]
        yield from families

    def _measure_now(self) -> None:
        now = self.clock()
        self._set("ready", float(self.is_ready))
        self._set("run_info", 1, _version())
        self._measure_watermark(now)
        self._measure_lease()
        self._measure_trends(now)
        work = TaskTotals() if self._engine is None else self._engine.runner.work
        self._set("spark_jobs_total", work.jobs)
        self._set("spark_tasks_total", work.tasks)
        self._set("spark_rows_total", work.rows)
        self._set("spark_task_seconds_total", work.seconds)
        for worker in () if self._engine is None else self._engine.sinks.workers:
            named = (worker.feed.listed.field, worker.sink.kind)
            self._set("sink_batches_behind", worker.behind, *named)
            self._set("sink_down", float(worker.outage is not None), *named)
        for table, (size, count) in self.sizes.tables.items():
            self._set("store_bytes", size, table)
            self._set("store_files", count, table)
        if self._engine is not None and self._engine.upkeep is not None:
            done = self._engine.upkeep.done
            self._set("upkeep_seconds_total", done.seconds)
            self._set("upkeep_failures_total", done.failures)
            if done.at is not None:
                self._set("upkeep_timestamp_seconds", done.at)
        working = self.backfills.under_way(now)
        for kind in BACKFILLS:
            self._set("backfill_under_way", float(kind in working), kind)

    def _measure_watermark(self, now: int) -> None:
        for name, moment in (("watermark", self._watermark), ("source", self._newest_arrival)):
            self._set_or_remove(f"{name}_lag_seconds", lag(moment, now))
        known = self._watermark not in (BEGIN_OF_TIME, END_OF_TIME)
        self._set_or_remove("watermark_timestamp_seconds", self._watermark if known else None)
        self._set_or_remove("watermark_lag_budget_seconds", self.pipeline.alerts.lag)
        self._set("partitions", len(self._marks))
        for name in (
            "partition_watermark_timestamp_seconds",
            "partition_watermark_lag_seconds",
            "partition_holds_watermark",
        ):
            self._values[name].clear()
        for partition, mark in self._names.shown(self._marks).items():
            if (behind := lag(mark, now)) is not None:
                self._set("partition_watermark_timestamp_seconds", mark / SECOND, partition)
                self._set("partition_watermark_lag_seconds", behind / SECOND, partition)
        if self._marks:
            _, slowest = min((mark, name) for name, mark in self._marks.items())
            self._set("partition_holds_watermark", 1, self._names.of(slowest))

    def _measure_lease(self) -> None:
        """The lease, of a store that has one: for a run that stands by only that it does not hold it."""
        lease = lease_over(self.pipeline.store_path)
        if lease is not None:
            self._leased = True
            self._set("lease_token", lease.token)
            self._set("lease_taken_timestamp_seconds", lease.record.since_seconds)
            self._set("lease_renewal_age_seconds", lease.clock.now() - lease.renewed_at)
        if self._leased:
            self._set("lease_held", float(lease is not None and not lease.lost))

    def _measure_trends(self, now: int) -> None:
        if now - self._trends_at < TRENDS_EVERY:
            return
        self._trends_at = now
        for output in self.pipeline.outputs:
            for name, value in (
                ("side_output_baseline_ratio", self.history.baseline(output, now)),
                ("corrections_ratio", self.history.corrections(output, now)),
                ("corrections_growth_ratio", self.history.growth(output, now)),
            ):
                if value is not None:
                    self._set(name, value, output)

    def _family(self, metric: Metric) -> Family:
        name, labels = full_name(metric), metric.all_labels
        if metric.kind is Kind.HISTOGRAM:
            shown = HistogramMetricFamily(name, metric.help, labels=labels)
            for key, histogram in self._histograms[metric.name].items():
                bounds = [*map(floatToGoString, histogram.bounds), "+Inf"]
                counts = [*histogram.within, histogram.count]
                pairs = list(zip(bounds, map(float, counts), strict=True))
                shown.add_metric([self.pipeline.name, *key], pairs, histogram.sum)
            return shown
        kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
        family = kind(name, metric.help, labels=labels)
        for key, value in self._values[metric.name].items():
            family.add_metric(list(key), value)
        return family

    # How values are kept

    def _add(self, name: str, amount: float, *labels: str) -> None:
        values, key = self._values[name], self._key(name, labels)
        values[key] = values.get(key, 0.0) + amount

    def _set(self, name: str, value: float, *labels: str) -> None:
        self._values[name][self._key(name, labels)] = value

    def _set_or_remove(self, name: str, micros: int | None) -> None:
        """A time in microseconds; where there is none, the metric has no value rather than a wrong one."""
        if micros is None:
            self._values[name].clear()
        else:
            self._set(name, micros / SECOND)

    def _key(self, name: str, labels: Labels) -> Labels:
        assert len(labels) == len(BY_NAME[name].labels), name  # noqa: S101
        return (self.pipeline.name, *map(label, labels))


def _version() -> str:
    try:
        return version("latecomer")
    except PackageNotFoundError:  # it runs from its sources, without being installed
        return "unknown"


# The size of the store


class SizeWatch:
    """Sums up the tables' own lists of files; it does not list folders."""

    def __init__(self) -> None:
        self.tables: dict[str, tuple[int, int]] = {}
        """Table → its bytes, and how many files it has."""
        self._stopping = threading.Event()

    def start(self, store: Store) -> None:
        names = [
            *_SHARED,
            *(f"outputs/{name}/{each}" for name in store.pipeline.outputs for each in _OF_OUTPUT),
        ]
        # Tables of its own, because a table may be used by one thread only.
        tables = {name: Table(store.root / name, pa.schema([])) for name in names}
        threading.Thread(target=self._watch, args=(tables,), name="latecomer-sizes", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _watch(self, tables: dict[str, Table]) -> None:
        while True:
            try:
                self.tables = {name: size for name, table in tables.items() if (size := size_of(table))}
            except (LatecomerError, OSError) as error:
                LOG.debug("the size of the store is not known: %s", error)
            if self._stopping.wait(EVERY_SECONDS):
                return


def size_of(table: Table) -> tuple[int, int] | None:
    """A table's bytes and how many files it has; None where it does not exist."""
    if not table.exists:
        return None
    table.refresh()
    files = table.files()
    return sum(file.size for file in files), len(files)
