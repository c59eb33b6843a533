"""Every metric: its name, kind, labels, meaning and stage of the flow.

This is the only list. The metrics that are served, the table in docs/metrics.md and the dashboard are made from it, and
the alert rules may name no other metric.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from latecomer.observe.lateness import BOUNDS

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
    kind: Kind
    labels: tuple[str, ...]
    help: str
    stage: str
    buckets: tuple[float, ...] = ()
    """The bounds of a histogram, in seconds."""
    words: str = ""
    """The title of its panel, where the name is not enough."""

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
_G, _C, _H = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM
_OUTPUT = ("output",)
_PARTITION = ("partition",)
_SINK = ("sink", "kind")
_TABLE = ("table",)

METRICS = (
    Metric(
        "source_unread_rows",
        _G,
        (),
        "Rows that the source has beyond the last batch, where it knows that.",
        "source",
        words="Rows left to read",
    ),
    Metric("source_lag_seconds", _G, (), "Wall clock less the newest arrival that was read.", "source"),
    Metric("rows_total", _C, (), "Rows that were read.", "log", words="Rows read"),
    Metric("rows_per_second", _G, (), "Rows of the last batch with data, by the time that it took.", "log"),
    Metric(
        "lateness_seconds",
        _H,
        (),
        "How long after their event time events arrived.",
        "log",
        tuple(map(float, BOUNDS)),
        words="How late events come",
    ),
    Metric(
        "watermark_timestamp_seconds",
        _G,
        (),
        "The watermark; none before the first and after a drain.",
        "timeline",
        words="Where the watermark stands",
    ),
    Metric("watermark_lag_seconds", _G, (), "Wall clock less the watermark.", "timeline"),
    Metric(
        "watermark_lag_budget_seconds",
        _G,
        (),
        "The setting alerts.lag; none where it is not set.",
        "timeline",
        words="Limit of the watermark's lag",
    ),
    Metric("partitions", _G, (), "Partitions that the watermark goes by.", "timeline"),
    Metric(
        "partition_watermark_timestamp_seconds",
        _G,
        _PARTITION,
        "How far a partition is by itself. The slowest have their names; the slowest of all others is (rest).",
        "timeline",
        words="Where partitions stand",
    ),
    Metric(
        "partition_watermark_lag_seconds",
        _G,
        _PARTITION,
        "Wall clock less how far a partition is.",
        "timeline",
        words="Lag of partitions",
    ),
    Metric(
        "partition_holds_watermark",
        _G,
        _PARTITION,
        "1 for the partition that the watermark waits for.",
        "timeline",
        words="Partition that the watermark waits for",
    ),
    Metric(
        "panes_total",
        _C,
        ("output", "timing", "op"),
        "Panes that were published.",
        "firing",
        words="Panes published",
    ),
    Metric(
        "corrections_total",
        _C,
        ("output", "kind"),
        "Numbers that were corrected after their window closed: late_pane, or rebuilt.",
        "firing",
        words="Numbers corrected",
    ),
    Metric(
        "corrections_ratio",
        _G,
        _OUTPUT,
        "Corrections for each event received, of the last 7 days. From the store.",
        "firing",
        words="Corrections for each event",
    ),
    Metric(
        "corrections_growth_ratio",
        _G,
        _OUTPUT,
        "By how much corrections for each event have grown in 28 days: 0.5 is half as many again. From the store.",
        "firing",
        words="Growth of corrections in 28 days",
    ),
    Metric("received_total", _C, _OUTPUT, "Rows that an output received.", "ledger", words="Rows received"),
    Metric("events_total", _C, ("output", "fate"), "Events by fate.", "ledger", words="Events by fate"),
    Metric(
        "late_at_source_total",
        _C,
        _OUTPUT,
        "Events behind the watermark when they arrived.",
        "ledger",
        words="Events behind the watermark",
    ),
    Metric(
        "side_output_baseline_ratio",
        _G,
        _OUTPUT,
        "The usual share of side output: the median hour of the 7 days before the last hour. From the store.",
        "ledger",
        words="Usual share of side output",
    ),
    Metric(
        "ledger_difference",
        _G,
        ("output", "unit"),
        "Received less all fates, in this run. Anything but 0 is a fault.",
        "ledger",
        words="What the ledger lacks",
    ),
    Metric(
        "batches_total",
        _C,
        ("kind",),
        "Batches by kind: data, heartbeat, drain, rebuild, repair.",
        "batch",
        words="Batches by kind",
    ),
    Metric(
        "batch_seconds",
        _H,
        ("stage",),
        "Seconds that a batch took, by stage: `log`, `timeline`, `waiting` (for the batch before it), `windowing` "
        "(windows, fates and panes, as files), `firing` (the outputs' commits), `ledger` (its check and its commit).",
        "batch",
        BATCH_SECONDS,
        words="How long a batch takes, by stage",
    ),
    Metric(
        "last_batch", _G, (), "The number of the last complete batch.", "batch", words="Last complete batch"
    ),
    Metric(
        "last_batch_timestamp_seconds",
        _G,
        (),
        "When the last batch was published.",
        "batch",
        words="When the last batch was published",
    ),
    Metric(
        "spark_jobs_total",
        _C,
        (),
        "Jobs in which Spark has run the kernels of this run.",
        "batch",
        words="Spark's jobs",
    ),
    Metric("spark_tasks_total", _C, (), "Tasks of these jobs.", "batch", words="Spark's tasks"),
    Metric(
        "spark_rows_total",
        _C,
        (),
        "Rows of sources that these tasks have read.",
        "batch",
        words="Rows in Spark's tasks",
    ),
    Metric(
        "spark_task_seconds_total",
        _C,
        (),
        "Seconds spent in these tasks, all together.",
        "batch",
        words="Seconds in Spark's tasks",
    ),
    Metric(
        "sink_batches_behind",
        _G,
        _SINK,
        "Complete batches that a sink does not have yet.",
        "sink",
        words="Batches that sinks lack",
    ),
    Metric(
        "sink_down", _G, _SINK, "1 while a sink does not answer.", "sink", words="Sinks that do not answer"
    ),
    Metric(
        "store_bytes", _G, _TABLE, "Bytes of a table's files.", "store", words="Size of the store's tables"
    ),
    Metric(
        "store_files",
        _G,
        _TABLE,
        "How many files a table is made of.",
        "store",
        words="Files of the store's tables",
    ),
    Metric(
        "upkeep_timestamp_seconds",
        _G,
        (),
        "When the store was last kept in shape, by a run or by `latecomer compact`; none before the first time.",
        "store",
        words="Last upkeep",
    ),
    Metric("upkeep_seconds_total", _C, (), "Seconds that the run has spent on upkeep.", "store"),
    Metric("upkeep_failures_total", _C, (), "Upkeep that failed; the run went on.", "store"),
    Metric(
        "backfill_under_way",
        _G,
        ("kind",),
        "1 while a backfill runs: history, rebuild or repair.",
        "run",
        words="Backfills under way",
    ),
    Metric(
        "lease_held",
        _G,
        (),
        "1 while this run has the lease of the store, 0 while it stands by or once another one has it. Of a store "
        "that has one.",
        "run",
        words="Whether the run has the lease",
    ),
    Metric("lease_token", _G, (), "The token of the run's lease: one more with every holder.", "run"),
    Metric("lease_taken_timestamp_seconds", _G, (), "When the run took the lease.", "run"),
    Metric(
        "lease_renewal_age_seconds",
        _G,
        (),
        "How long ago the lease was renewed; another engine may take over once that is as long as `lease.takeover`.",
        "run",
        words="Since the lease was renewed",
    ),
    Metric(
        "ready", _G, (), "1 once the run reads its source.", "run", words="Whether the run reads its source"
    ),
    Metric("run_info", _G, ("version",), "1, with the version of latecomer.", "run", words="Version"),
)
"""Names without PREFIX, in the order of the flow."""

BY_NAME = {metric.name: metric for metric in METRICS}
STAGES = tuple(dict.fromkeys(metric.stage for metric in METRICS))
BATCH_STAGES = ("log", "timeline", "waiting", "windowing", "firing", "ledger")
BACKFILLS = ("history", "rebuild", "repair")
CORRECTIONS = ("late_pane", "rebuilt")


def full_name(metric: Metric) -> str:
    """
    >>> full_name(BY_NAME["ready"])
    'latecomer_ready'
    """
    return PREFIX + metric.name
