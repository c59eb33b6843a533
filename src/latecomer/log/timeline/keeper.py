"""The timeline in the store: written batch by batch; the carry is read back from it, never kept only in memory."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.log.timeline.watermarks import Watermarks
from latecomer.model.durations import to_micros
from latecomer.model.partition_marks import SummaryColumns
from latecomer.model.silent_partitions import SilentPartition, holding_in_words
from latecomer.model.source_order import NOT_BEGUN, BegunSlices, ReadTo
from latecomer.model.strategies import Strategy, TickSummary
from latecomer.model.timeline import Timeline, TimelineRow
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.store.delta.table import Table, moments
from latecomer.store.layout import TIMESTAMP

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class WatermarkRise:
    """A moment at which the watermark stood higher than before."""

    watermark: int
    at: int


@dataclass(frozen=True)
class Section:
    """The timeline's rows for one batch, or for several."""

    rows: Sequence[tuple[int, TimelineRow]]
    """Batch and row."""
    before: WatermarkRise | None = None
    """Where the watermark and the arrival clock stood before; None at the very beginning."""

    @property
    def end(self) -> WatermarkRise | None:
        """Watermark and arrival clock after the section."""
        return WatermarkRise(self.fires_at, self.clock) if self.rows else None

    @cached_property
    def clock(self) -> int:
        """The arrival clock at the end of the section."""
        return max((row.at for _, row in self.rows), default=BEGIN_OF_TIME)

    @property
    def watermark_before(self) -> int:
        """The watermark in force when it began; BEGIN_OF_TIME where there was none yet."""
        return self.before.watermark if self.before else BEGIN_OF_TIME

    def passed(self, interval: int) -> bool:
        """Whether the arrival clock passed a multiple of the interval. The clock starts at the first tick."""
        known = [self.before.at if self.before else BEGIN_OF_TIME, *(row.at for _, row in self.rows)]
        began = next((at for at in known if at != BEGIN_OF_TIME), None)
        return began is not None and self.clock // interval > began // interval

    @property
    def began_at(self) -> int:
        """The watermark before the section; if there was none, the first one."""
        before = self.watermark_before
        known = (mark for mark in (before, *(step.watermark for step in self.steps)) if mark != BEGIN_OF_TIME)
        return next(known, BEGIN_OF_TIME)

    @property
    def fires_at(self) -> int:
        """Windows that end at or before this have closed by the end of the section."""
        return self.steps[-1].watermark if self.steps else BEGIN_OF_TIME

    @cached_property
    def steps(self) -> list[WatermarkRise]:
        """Where the watermark rose, ascending."""
        steps: list[WatermarkRise] = []
        for _, row in self.rows:
            for watermark in (row.watermark, row.settled):
                if watermark is not None and (not steps or watermark > steps[-1].watermark):
                    steps.append(WatermarkRise(watermark, row.at))
        return steps

    @cached_property
    def watermarks(self) -> Watermarks:
        """The watermark of each batch and tick, and where the arrival clock stood."""
        before = self.before.at if self.before else BEGIN_OF_TIME
        at = np.array([row.at for _, row in self.rows], np.int64)
        batches = [batch for batch, _ in self.rows]
        return Watermarks(
            np.array([row.tick for _, row in self.rows], np.int64),
            np.array([row.watermark for _, row in self.rows], np.int64),
            np.maximum.accumulate(np.maximum(at, before)),
            np.array(batches, np.int64) if len(set(batches)) > 1 else None,
        )


@dataclass(frozen=True)
class Origin:
    """Where a batch of the timeline comes from."""

    source_batch: int
    """Its number at the source."""
    source: str = ""
    """The source, where there are several."""
    arrival_by: str | None = None
    """Where the arrival times of its rows come from."""
    read_to: Mapping[str, ReadTo] = field(default_factory=dict)
    """How far each source is read, where several are read together."""


@dataclass(frozen=True)
class AcceptedBatches:
    """How far a source is on the timeline: its last batch, and how many parts of it. Only earlier versions made several
    parts. `begun` is for later batches that are read only until a moment."""

    batch: int
    parts: int
    begun: BegunSlices = NOT_BEGUN


class TimelineKeeper:
    """Extends the timeline, batch by batch, and remembers it."""

    def __init__(self, table: Table, strategy: Strategy) -> None:
        self.table = table
        self.strategy = strategy
        carry = self._last_carry()
        self._reached: tuple[int, WatermarkRise | None] | None = None
        self.timeline = Timeline.restore(strategy, carry)
        self._warned_of: set[str] = set()

    def extend(
        self,
        batch: int,
        origin: Origin,
        summaries: Iterable[TickSummary],
        named: Mapping[str, bool] | None = None,
    ) -> Section:
        """The rows of a data batch: computed and written, or read back if that was done before."""
        if not self.table.holds(batch):
            rows = self.timeline.extend(summaries, named)
            self._write(batch, rows, origin, summaries if isinstance(summaries, SummaryColumns) else None)
        return self.section(batch, batch)

    def advance(self, batch: int, row: TimelineRow) -> Section:
        """The row of a batch without data: a heartbeat or the drain."""
        if not self.table.holds(batch):
            self._write(batch, [row])
        return self.section(batch, batch)

    def repair(self, batch: int, ticks: Iterable[int]) -> Section:
        """The rows of a batch of repaired dead letters: the timeline does not move."""
        if not self.table.holds(batch):
            self._write(batch, self.timeline.repaired(ticks))
        return self.section(batch, batch)

    def holding(self) -> Sequence[SilentPartition]:
        """The silent partitions that hold the watermark back; a warning names each once a run."""
        holding = self.timeline.holding()
        news = [each for each in holding if each.partition not in self._warned_of]
        if news:
            self._warned_of.update(each.partition for each in news)
            LOG.warning("%s", holding_in_words(news))
        return holding

    def heartbeat(self, at: int) -> tuple[Timeline, TimelineRow] | None:
        """The timeline after a heartbeat, and its row; None if it changes nothing. This timeline stays as it is."""
        trial = Timeline.restore(self.strategy, self.timeline.carry())
        row = trial.heartbeat(at)
        return None if row is None else (trial, row)

    def section(self, first: int, last: int) -> Section:
        """The rows of some batches, from the table."""
        if not self.table.exists:
            return Section([])
        found = self.table.query(
            "select batch, tick, at, watermark, settled, kind from t "
            f"where batch between {first} and {last} order by batch, tick"
        )
        at, watermark = (_micros(found, name, BEGIN_OF_TIME) for name in ("at", "watermark"))
        ticks, kinds = (found.column(name).to_pylist() for name in ("tick", "kind"))
        rows = map(TimelineRow, ticks, at, watermark, _micros(found, "settled"), kinds)
        whole = Section(
            list(zip(found.column("batch").to_pylist(), rows, strict=True)), self.reached(first - 1)
        )
        if first == last and whole.rows:  # the next batch needs it
            self._reached = last, whole.end
        return whole

    def reached(self, batch: int) -> WatermarkRise | None:
        """Watermark and arrival clock after a batch, without reading each of its ticks."""
        if batch < 0 or not self.table.exists:
            return None
        known = self._reached
        if known is None or known[0] != batch:
            found = self.table.query(
                "select count(*) as n, max(at) as at, max(watermark) as watermark, max(settled) as settled "
                f"from t where batch = {batch}"
            )
            (at,), (watermark,), (settled,) = (
                _micros(found, name, BEGIN_OF_TIME) for name in ("at", "watermark", "settled")
            )
            count = found.column("n")[0].as_py()
            known = self._reached = batch, WatermarkRise(max(watermark, settled), at) if count else None
        return known[1]

    def _write(
        self,
        batch: int,
        rows: Sequence[TimelineRow],
        origin: Origin | None = None,
        summaries: SummaryColumns | None = None,
    ) -> None:
        """Write rows. `summaries` are those of the rows, one tick each, if they are in columns."""
        if origin is None:
            origin = Origin(self.accepted().batch)
        if not rows:
            rows = [TimelineRow(self.timeline.last_tick or 0, self.timeline.last_at, self.timeline.watermark)]
        carry = self.timeline.carry()
        read_to = _written_down({**self._accepted, **self._read_with(origin, rows[0].kind)})
        self.table.append(
            batch,
            pa.table(
                {
                    "batch": [batch] * len(rows),
                    "source_batch": [origin.source_batch] * len(rows),
                    "tick": [row.tick for row in rows],
                    "at": moments([_stored(row.at) for row in rows]),
                    "watermark": moments([_stored(row.watermark) for row in rows]),
                    "settled": moments([_stored(row.settled) for row in rows]),
                    "kind": [row.kind for row in rows],
                    "source": pa.array([origin.source or None] * len(rows), pa.string()),
                    "arrival_by": pa.array([origin.arrival_by] * len(rows), pa.string()),
                    "held_by": pa.array([row.held_by for row in rows], pa.string()),
                    "unheld": moments([row.unheld for row in rows]),
                    "held_with": pa.array(
                        [list(row.held_with) or None for row in rows], pa.list_(pa.string())
                    ),
                    "partitions": _listed(summaries)
                    if summaries
                    else pa.array(
                        [_partitions(row) for row in rows], self.table.schema.field("partitions").type
                    ),
                    "carry": pa.array([None] * (len(rows) - 1) + [carry], pa.string()),
                    "read_to": pa.array([None] * (len(rows) - 1) + [read_to], pa.string()),
                }
            ),
        )
        self._accepted |= self._read_with(origin, rows[0].kind)

    def _read_with(self, origin: Origin, kind: str) -> dict[str, AcceptedBatches]:
        """How far sources are with a batch."""
        if origin.read_to:
            return {name: AcceptedBatches(each.batch, 1, each.begun) for name, each in origin.read_to.items()}
        before = self.accepted(origin.source)
        parts = before.parts if before.batch == origin.source_batch else 0
        return {origin.source: AcceptedBatches(origin.source_batch, parts + (kind == "tick"))}

    def accepted(self, source: str = "") -> AcceptedBatches:
        """How far a source is on the timeline."""
        return self._accepted.get(source, AcceptedBatches(-1, 0))

    def holds(self, source: str, source_batch: int) -> bool:
        """Whether a batch of a source is on the timeline."""
        accepted = self.accepted(source)
        return source_batch < accepted.batch or (source_batch == accepted.batch and accepted.parts > 0)

    @cached_property
    def _accepted(self) -> dict[str, AcceptedBatches]:
        """By source. Stores of earlier versions, and those of one source, have no `read_to`: there it is counted."""
        last = "select read_to from t where read_to is not null order by batch desc limit 1"
        for row in self.table.query_rows(last):
            return _read_back(row["read_to"])
        rows = self.table.query_rows(
            "select source, source_batch, count(distinct case when kind = 'tick' then batch end) as parts from t "
            "group by source, source_batch order by source_batch"
        )
        return {row["source"] or "": AcceptedBatches(row["source_batch"], row["parts"]) for row in rows}

    def _last_carry(self) -> str | None:
        rows = self.table.query_rows(
            "select carry from t where carry is not null order by batch desc limit 1"
        )
        return rows[0]["carry"] if rows else None


def reached_watermark(timeline: Table, through: int | None = None) -> int | None:
    """How far the watermark has come, or had come after a batch; None before the first watermark."""
    known = "true" if through is None else f"batch <= {through}"
    rows = timeline.query_rows(
        f"select max(watermark) as watermark, max(settled) as settled from t where {known}"
    )
    return max((to_micros(mark) for row in rows for mark in row.values() if mark is not None), default=None)


def _written_down(accepted: Mapping[str, AcceptedBatches]) -> str | None:
    """How far each of several sources is read, as JSON; None if there is only one."""
    named = {
        name: [each.batch, each.begun.slices, each.begun.until] for name, each in accepted.items() if name
    }
    return json.dumps(named, separators=(",", ":")) if named else None


def _read_back(written: str) -> dict[str, AcceptedBatches]:
    return {
        name: AcceptedBatches(batch, 1, BegunSlices(slices, until))
        for name, (batch, slices, until) in json.loads(written).items()
    }


def _partitions(row: TimelineRow) -> list[dict[str, object]]:
    return [
        {"partition": summary.partition, "events": summary.events, "max_event_time": summary.max_event_time}
        for summary in row.summaries
    ]


def _listed(summaries: SummaryColumns) -> pa.ListArray:
    """The same for summaries in columns, tick by tick."""
    named = pa.array(summaries.names, pa.string()).take(pa.array(summaries.nth))
    parts = {
        "partition": named,
        "events": pa.array(summaries.events),
        "max_event_time": pa.array(summaries.latest),
    }
    each = pa.StructArray.from_arrays(list(parts.values()), list(parts))
    return pa.ListArray.from_arrays(pa.array(summaries.bounds, pa.int32()), each)


def _stored(micros: int | None) -> int | None:
    return None if micros is None or micros == BEGIN_OF_TIME else micros


def _micros(found: pa.Table, name: str, nothing: int | None = None) -> list[Any]:
    """A column of moments in microseconds, with `nothing` where there is none."""
    micros = found.column(name).cast(TIMESTAMP).cast(pa.int64())
    written: list[Any] = (micros if nothing is None else micros.fill_null(nothing)).to_pylist()
    return written
