"""What a batch did: collected on its way through the flow, and reported once its ledger is closed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from latecomer.model.publications import lag

if TYPE_CHECKING:
    from latecomer.engine.ledger.book import Intake
    from latecomer.log.events import Received
    from latecomer.model.holding import SilentPartition
    from latecomer.model.ledger import Entry
    from latecomer.model.timeline import OutOfStep
    from latecomer.store.data_files import DataFile
    from latecomer.windowing.firing.output import Batch


class Stopwatch:
    """Seconds by stage: a stage ends where the next one begins."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.monotonic()

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


@dataclass(frozen=True)
class AcceptedBatch:
    """A batch that is in the log and on the timeline."""

    batch: Batch
    began: float
    report: BatchReport
    """What is known of it before it is published."""
    intake: Intake | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)

    def of_data(
        self,
        watch: Stopwatch,
        out_of_step: OutOfStep | None,
        holding: Sequence[SilentPartition],
        unread: int | None,
        events: Sequence[DataFile],
    ) -> AcceptedBatch:
        """The batch with what is known only of data that was just read from its source."""
        report = replace(self.report, out_of_step=out_of_step, holding=holding, unread=unread, events=events)
        return replace(self, report=report, watch=watch)

    def published(
        self,
        seconds: float,
        entries: Sequence[Entry],
        published_at: int,
        panes: Mapping[str, Sequence[DataFile]],
    ) -> BatchReport:
        """The report, once the batch is published."""
        return replace(
            self.report,
            seconds=seconds,
            entries=entries,
            published_at=published_at,
            stages=self.watch.seconds,
            panes=panes,
        )
