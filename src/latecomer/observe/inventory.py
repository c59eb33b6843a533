"""Every metric: its name, kind, labels, meaning and stage of the flow.

This is the only list. The metrics that are served, the table in docs/metrics.md and the dashboard are made from it, and
the alert rules may name no other metric.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import nsmallest

from latecomer.errors import shortened
from latecomer.observe.recorded import BOUNDS

PREFIX = "latecomer_"


class Kind(StrEnum):
    """How a metric counts."""

    GAUGE = "gauge"
    """Goes up and down."""
    COUNTER = "counter"
    """Counts from the start of the run."""
    HISTOGRAM = "histogram"
    """Counts by size, from the start of the run."""


@dataclass(frozen=True)
class Metric:
    """One metric. Every metric has the label `pipeline`; `labels` are the others."""

    name: str
    help: str
    words: str = ""
    """The title of its panel, where the name is not enough."""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """The bounds of a histogram, in seconds."""

    @property
    def kind(self) -> Kind:
        """A name that ends in `_total` is a counter's, as Prometheus has it."""
        if self.buckets:
            return Kind.HISTOGRAM
        return Kind.COUNTER if self.name.endswith("_total") else Kind.GAUGE

    @property
    def title(self) -> str:
        """
        >>> BY_NAME["source_lag_seconds"].title, BY_NAME["events_total"].title
        ('Source lag', 'Events by fate, a minute')
        """
        plain = re.sub(r"(_timestamp)?(_seconds|_bytes|_ratio)?(_total)?$", "", self.name).replace("_", " ")
        return (self.words or plain.capitalize()) + (", a minute" if self.kind is Kind.COUNTER else "")

    @property
    def all_labels(self) -> tuple[str, ...]:
        return ("pipeline", *self.labels)


BATCH_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_OUTPUT = ("output",)
_PARTITION = ("partition",)
_SINK = ("sink", "kind")
_TABLE = ("table",)

STAGES = {
    "source": (
        Metric(
            "source_unread_rows",
            "Rows that the source has beyond the last batch, where it knows that.",
            "Rows left to read",
        ),
        Metric("source_lag_seconds", "Wall clock less the newest arrival that was read."),
    ),
    "log": (
        Metric("rows_total", "Rows that were read.", "Rows read"),
        Metric("rows_per_second", "Rows of the last batch with data, by the time that it took."),
        Metric(
            "lateness_seconds",
            "How long after their event time events arrived.",
            "How late events come",
            buckets=tuple(map(float, BOUNDS)),
        ),
    ),
    "timeline": (
        Metric(
            "watermark_timestamp_seconds",
            "The watermark; none before the first and after a drain.",
            "Where the watermark stands",
        ),
        Metric("watermark_lag_seconds", "Wall clock less the watermark."),
        Metric(
            "watermark_lag_budget_seconds",
            "The setting alerts.lag; none where it is not set.",
            "Limit of the watermark's lag",
        ),
        Metric("partitions", "Partitions that the watermark goes by."),
        Metric(
            "partition_watermark_timestamp_seconds",
            "How far a partition is by itself. The slowest have their names; the slowest of all others is "
            "(rest).",
            "Where partitions stand",
            _PARTITION,
        ),
        Metric(
            "partition_watermark_lag_seconds",
            "Wall clock less how far a partition is.",
            "Lag of partitions",
            _PARTITION,
        ),
        Metric(
            "partition_holds_watermark",
            "1 for the partition that the watermark waits for.",
            "Partition that the watermark waits for",
            _PARTITION,
        ),
    ),
    "firing": (
        Metric("panes_total", "Panes that were published.", "Panes published", ("output", "timing", "op")),
        Metric(
            "corrections_total",
            "Numbers that were corrected after their window closed: late_pane, or rebuilt.",
            "Numbers corrected",
            ("output", "kind"),
        ),
        Metric(
            "corrections_ratio",
            "Corrections for each event received, of the last 7 days. From the store.",
            "Corrections for each event",
            _OUTPUT,
        ),
        Metric(
            "corrections_growth_ratio",
            "By how much corrections for each event have grown in 28 days: 0.5 is half as many again. From the "
            "store.",
            "Growth of corrections in 28 days",
            _OUTPUT,
        ),
    ),
    "ledger": (
        Metric("received_total", "Rows that an output received.", "Rows received", _OUTPUT),
        Metric("events_total", "Events by fate.", "Events by fate", ("output", "fate")),
        Metric(
            "late_at_source_total",
            "Events behind the watermark when they arrived.",
            "Events behind the watermark",
            _OUTPUT,
        ),
        Metric(
            "side_output_baseline_ratio",
            "The usual share of side output: the median hour of the 7 days before the last hour. From the "
            "store.",
            "Usual share of side output",
            _OUTPUT,
        ),
        Metric(
            "ledger_difference",
            "Received less all fates, in this run. Anything but 0 is a fault.",
            "What the ledger lacks",
            ("output", "unit"),
        ),
    ),
    "batch": (
        Metric(
            "batches_total",
            "Batches by kind: data, heartbeat, drain, rebuild, repair.",
            "Batches by kind",
            ("kind",),
        ),
        Metric(
            "batch_seconds",
            "Seconds that a batch took, by stage: `log`, `timeline`, `waiting` (for the batch before it), "
            "`windowing` (windows, fates and panes, as files), `firing` (the outputs' commits), `ledger` (its "
            "check and its commit).",
            "How long a batch takes, by stage",
            ("stage",),
            buckets=BATCH_SECONDS,
        ),
        Metric("last_batch", "The number of the last complete batch.", "Last complete batch"),
        Metric(
            "last_batch_timestamp_seconds",
            "When the last batch was published.",
            "When the last batch was published",
        ),
        Metric("spark_jobs_total", "Jobs in which Spark has run the kernels of this run.", "Spark's jobs"),
        Metric("spark_tasks_total", "Tasks of these jobs.", "Spark's tasks"),
        Metric("spark_rows_total", "Rows of sources that these tasks have read.", "Rows in Spark's tasks"),
        Metric(
            "spark_task_seconds_total",
            "Seconds spent in these tasks, all together.",
            "Seconds in Spark's tasks",
        ),
    ),
    "sink": (
        Metric(
            "sink_batches_behind",
            "Complete batches that a sink does not have yet.",
            "Batches that sinks lack",
            _SINK,
        ),
        Metric("sink_down", "1 while a sink does not answer.", "Sinks that do not answer", _SINK),
    ),
    "store": (
        Metric("store_bytes", "Bytes of a table's files.", "Size of the store's tables", _TABLE),
        Metric("store_files", "How many files a table is made of.", "Files of the store's tables", _TABLE),
        Metric(
            "upkeep_timestamp_seconds",
            "When the store was last kept in shape, by a run or by `latecomer compact`; none before the first "
            "time.",
            "Last upkeep",
        ),
        Metric("upkeep_seconds_total", "Seconds that the run has spent on upkeep."),
        Metric("upkeep_failures_total", "Upkeep that failed; the run went on."),
    ),
    "run": (
        Metric(
            "backfill_under_way",
            "1 while a backfill runs: history, rebuild or repair.",
            "Backfills under way",
            ("kind",),
        ),
        Metric(
            "lease_held",
            "1 while this run has the lease of the store, 0 while it stands by or once another one has it. Of "
            "a store that has one.",
            "Whether the run has the lease",
        ),
        Metric("lease_token", "The token of the run's lease: one more with every holder."),
        Metric("lease_taken_timestamp_seconds", "When the run took the lease."),
        Metric(
            "lease_renewal_age_seconds",
            "How long ago the lease was renewed; another engine may take over once that is as long as "
            "`lease.takeover`.",
            "Since the lease was renewed",
        ),
        Metric("ready", "1 once the run reads its source.", "Whether the run reads its source"),
        Metric("run_info", "1, with the version of latecomer.", "Version", ("version",)),
    ),
}
"""Names without PREFIX, by stage, in the order of the flow."""

METRICS = tuple(metric for metrics in STAGES.values() for metric in metrics)
BY_NAME = {metric.name: metric for metric in METRICS}
BATCH_STAGES = ("log", "timeline", "waiting", "windowing", "firing", "ledger")
BACKFILLS = ("history", "rebuild", "repair")
CORRECTIONS = ("late_pane", "rebuilt")


def full_name(metric: Metric) -> str:
    """
    >>> full_name(BY_NAME["ready"])
    'latecomer_ready'
    """
    return PREFIX + metric.name


# Labels for partitions: only so many names are used that a metrics server can keep them

AT_ONCE = 20
"""So many partitions, the slowest, are shown by name at a time."""
EVER = 200
"""So many names are used in a run at most. Each is a series that a metrics server keeps for weeks."""
REST = "(rest)"
NAMELESS = "(none)"
LONGEST = 100


def label(text: str) -> str:
    """A text as the value of a label: not too long, never empty, and valid Unicode.

    >>> label("x" * 200)[-2:], label("a\\udc80b"), label("")
    ('x…', 'a?b', '(none)')
    """
    return shortened(text.encode("utf-8", "replace").decode() or NAMELESS, LONGEST)


class PartitionNames:
    """Chooses the labels of the slowest partitions, within the limits."""

    def __init__(self, at_once: int = AT_ONCE, ever: int = EVER) -> None:
        self._at_once, self._ever = at_once, ever
        self._used: set[str] = set()

    def shown(self, marks: Mapping[str, int]) -> dict[str, int]:
        """How far the slowest partitions are, by label. All others share one label, with the slowest of them.

        >>> PartitionNames(at_once=2).shown({"a": 3, "b": 1, "c": 2, "d": 9})
        {'b': 1, 'c': 2, '(rest)': 3}
        """
        shown: dict[str, int] = {}
        for mark, name in nsmallest(self._at_once + 1, ((mark, name) for name, mark in marks.items())):
            named = self.of(name) if len(shown) < self._at_once else REST
            shown[named] = min(shown.get(named, mark), mark)
        return shown

    def of(self, partition: str) -> str:
        """The label of a partition: its name, or `(rest)` once too many names were used."""
        name = label(partition)
        if name not in self._used:
            if len(self._used) >= self._ever:
                return REST
            self._used.add(name)
        return name
