"""What a batch did: reported once its ledger is closed; as a mapping, for programs, notebooks and the log of a run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from latecomer.model.counting import counted
from latecomer.model.durations import iso, shown_duration
from latecomer.model.ledger import EVENTS
from latecomer.model.markup import escape
from latecomer.model.publications import lag
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.model.written_values import json_seconds

if TYPE_CHECKING:
    from latecomer.log.readable import Received
    from latecomer.model.ledger import Entry
    from latecomer.model.silent_partitions import SilentPartition
    from latecomer.model.timeline import OutOfStep
    from latecomer.store.delta.data_files import DataFile

_MOST_HOLDING = 10
"""At most this many silent partitions that hold the watermark back are named."""


class Stopwatch:
    """Seconds by stage: a stage ends where the next one begins."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.began = self._since = time.monotonic()

    def end(self, stage: str) -> None:
        """Add the time since the last call to this stage."""
        now = time.monotonic()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._since
        self._since = now


@dataclass(frozen=True)
class BatchReport:
    """What a batch did; it is passed to `watch`."""

    batch: int
    kind: str
    """`data`, `heartbeat`, `drain`, `rebuild` or `repair`."""
    received: Received
    seconds: float
    watermark: int
    newest_arrival: int
    entries: Sequence[Entry] = field(default_factory=list)
    out_of_step: OutOfStep | None = None
    """Events that arrived clearly before those that earlier batches read: they may be late for that reason alone."""
    holding: Sequence[SilentPartition] = ()
    """The silent partitions that hold the watermark back."""
    unread: int | None = None
    """How many rows the source had after this batch, where it knows that."""
    published_at: int | None = None
    """The wall clock when the batch was published."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage of the flow; `waiting` is for the batch before this one."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """The watermark of each partition that is not idle; empty unless `Engine.measured` is set."""
    events: Sequence[DataFile] = ()
    """The files of events that were logged."""
    panes: Mapping[str, Sequence[DataFile]] = field(default_factory=dict)
    """The files of panes that each output published."""

    @property
    def lag(self) -> int | None:
        """How far the watermark was behind the wall clock; None where there is no watermark."""
        return lag(self.watermark, self.published_at)

    @property
    def arrival_lag(self) -> int | None:
        """How far the watermark was behind the newest arrival: a source that hands in nothing does not raise it."""
        return lag(self.watermark, self.newest_arrival)


class BatchProgress(dict[str, Any]):
    """What a batch did, with values as in JSON. A notebook shows it in one line."""

    def __str__(self) -> str:
        return json.dumps(self, indent=2)

    @property
    def line(self) -> str:
        """The batch in one line."""
        fates = dict[str, int]()
        for counts in self["outputs"].values():
            for name in (Fate.LATE_ACCEPTED, Fate.SIDE_OUTPUT, Fate.DROPPED):
                fates[name.value] = fates.get(name.value, 0) + counts[name.value]
        shown = [f"{count:,} {name.replace('_', ' ')}" for name, count in fates.items() if count]
        lag = self["lag_seconds"]
        behind = "" if lag is None else f", {shown_duration(round(lag * 1_000_000))} behind"
        return ", ".join(
            [
                f"batch {self['batch']}: {counted(self['rows'], 'row')} in {self['seconds']:.1f} s",
                f"watermark {self['watermark'] or 'none yet'}{behind}",
                *shown,
            ]
        )

    def _repr_html_(self) -> str:
        return f"<div>{escape(self.line)}</div>"


def progress_of(report: BatchReport, moment: Callable[[int], str | None] = iso) -> BatchProgress:
    """What a batch did; `moment` turns microseconds into text."""

    def written(micros: int | None) -> str | None:
        return None if micros is None or micros == BEGIN_OF_TIME else moment(micros)

    received = report.received
    return BatchProgress(
        batch=report.batch,
        kind=report.kind,
        rows=received.rows,
        events=received.events,
        duplicates=received.duplicates,
        dead_letters=received.dead_letters,
        seconds=round(report.seconds, 3),
        rows_per_second=rate(received.rows, report.seconds),
        watermark=written(report.watermark),
        newest_arrival=written(report.newest_arrival),
        published_at=written(report.published_at),
        lag_seconds=None if report.lag is None else json_seconds(report.lag),
        arrival_lag_seconds=None if report.arrival_lag is None else json_seconds(report.arrival_lag),
        unread=report.unread,
        out_of_step=0 if report.out_of_step is None else report.out_of_step.events,
        holding=[
            {
                "partition": each.partition,
                "silent_seconds": json_seconds(each.silent_for),
                "waiting": each.waiting,
            }
            for each in report.holding[:_MOST_HOLDING]
        ],
        outputs={
            output: {"received": int(count), **{fate.value: int(fates.get(fate, 0)) for fate in Fate}}
            for output, (count, fates) in by_output(report).items()
        },
        stages={stage: round(seconds, 3) for stage, seconds in report.stages.items()},
    )


def by_output(report: BatchReport) -> dict[str, tuple[Decimal, Mapping[Fate, Decimal]]]:
    """For each output, how many events it received, and how many had each fate."""
    return {entry.output: (entry.received, entry.fates) for entry in report.entries if entry.unit == EVENTS}


def rate(rows: int, seconds: float) -> int:
    return round(rows / seconds) if seconds > 0 else 0
