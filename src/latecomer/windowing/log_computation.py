"""Computes from the log again, split by split, after publication. Two kernels, each called in a task:

events with one fate, in chosen windows → one aggregation, and dead letters of those that fail
events → how many met which fate, batch by batch
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.log.logged_events import Logged
from latecomer.log.timeline.watermarks import JudgingWatermarks, NothingLate
from latecomer.model.array_types import Flags, Micros
from latecomer.model.arrays import flat
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.verdicts import Fate
from latecomer.spark.base import Runner, Shared
from latecomer.store.files import Location, new_token, write_table
from latecomer.store.included import IncludedEvents
from latecomer.store.layout import EventLayout, PaneLayout
from latecomer.windowing.aggregates.base import as_count
from latecomer.windowing.fate_counts import CODES, FATES, Counts, Periods
from latecomer.windowing.judge import JudgedEvents, in_parts, judged
from latecomer.windowing.merge import Merger
from latecomer.windowing.visible_events import event_tables, failed_letters, stored_columns

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class WindowChoice:
    """Which windows are computed anew."""

    since: int
    until: int
    watermark: int
    """Windows that end at or before this are closed; open ones are left to the pipeline."""
    after: int | None = None
    """Set where the definition of the output changes: then windows that end after this are computed as well, since late
    events may reach them, and open ones too."""

    def closed(self, start: Micros, end: Micros) -> Flags:
        """Whether each window is closed and chosen."""
        wanted = (start >= self.since) & (start < self.until)
        if self.after is not None:
            wanted |= end > self.after
        return wanted & (end <= self.watermark)

    def computes(self, start: Micros, end: Micros) -> Flags:
        """Whether each window is chosen, or open while the definition changes."""
        chosen = self.closed(start, end)
        return chosen | (end > self.watermark) if self.after is not None else chosen


@dataclass(frozen=True)
class LogComputation:
    """What is computed from the log's events."""

    panes: PaneLayout
    """The aggregates that are wanted, and their keys."""
    measures: Mapping[str, str]
    periods: Periods
    """The policies that events are judged under."""
    last: int
    """The last batch whose events count."""
    timeline: JudgingWatermarks = field(default_factory=NothingLate)
    fate: Fate = Fate.ON_TIME
    """Events with this fate are aggregated. Where nothing is late, that is all events that `where` keeps."""
    windows: WindowChoice | None = None
    """None: all windows."""
    left_out: IncludedEvents | None = None
    """Events that are not aggregated, because a rebuild has included them."""
    letters: Location | None = None
    """Where events of these windows that fail are written as dead letters; None: nowhere."""

    @property
    def layout(self) -> EventLayout:
        return self.panes.events

    @cached_property
    def merger(self) -> Merger:
        return Merger(self.panes, self.measures)

    def judged(
        self, logged: Logged, wanted: Sequence[str]
    ) -> Iterator[tuple[Output, pa.Table, JudgedEvents]]:
        """The events with the wanted columns, as `judged_parts` gives them."""
        outputs = [under for _, under in self.periods]
        columns = stored_columns(self.layout, outputs, wanted)
        if self.letters is not None:
            columns = list(dict.fromkeys([*columns, *self.layout.schema.names]))
        parts = event_tables(logged, columns, outputs, self.layout)
        return judged_parts(parts, self.layout, self.periods, self.timeline, self.last, wanted)

    def aggregated(self, runner: Runner, what: str, logged: Logged) -> pa.Table | None:
        """START, END, keys, values and states of every window; None where there is no window."""
        return self.with_letters(runner, what, logged)[0]

    def with_letters(
        self, runner: Runner, what: str, logged: Logged
    ) -> tuple[pa.Table | None, list[Location]]:
        """The same, and the files of dead letters."""
        parts = _spread(runner, what, _aggregated, self, logged)
        merged = [each for each, _ in parts if each is not None]
        letters = [file for _, files in parts for file in files]
        if len(merged) < 2:
            return merged[0] if merged else None, letters
        return self.merger.merge([self.merger.as_inputs(each) for each in merged]), letters

    def counted(self, runner: Runner, what: str, logged: Logged) -> dict[int, Counts]:
        """For each batch, how many events met which fate, and how much of each measure."""
        return joined_by_batch(_spread(runner, what, _counted, self, logged))


def _spread(
    runner: Runner,
    what: str,
    kernel: Callable[[Shared[LogComputation], Logged], _Result],
    computation: LogComputation,
    logged: Logged,
) -> list[_Result]:
    return runner.run(what, partial(kernel, Shared(computation)), logged.by_split()).tasks


def _aggregated(shared: Shared[LogComputation], part: Logged) -> tuple[pa.Table | None, list[Location]]:
    letters: list[Location] = []
    return shared.value.merger.merge_parts(_chosen(shared.value, part, letters)), letters


def _chosen(computation: LogComputation, logged: Logged, letters: list[Location]) -> Iterator[JudgedEvents]:
    """The events to aggregate, all with the fate on time. Events that fail are written as dead letters."""
    for under, few, rows in computation.judged(logged, computation.merger.columns):
        chosen = np.ones(len(rows), bool)
        if computation.windows is not None:
            chosen = computation.windows.computes(rows.start, rows.end)
        failed = chosen & (rows.fate == CODES[Fate.FAILED])
        if computation.letters is not None and failed.any():
            dead = failed_letters(few.take(pa.array(rows.nth[failed])), computation.layout, under)
            letters.append(write_table(dead, computation.letters / f"part-{new_token()}.parquet"))
        if computation.left_out is not None:
            batch = np.asarray(flat(few.column("batch")))[rows.nth]
            chosen &= ~computation.left_out.flags(batch, rows.start, rows.end)
        yield only_on_time(rows, chosen & (rows.fate == CODES[computation.fate]))


def only_on_time(events: JudgedEvents, chosen: Flags) -> JudgedEvents:
    """Some events, with the fate on time."""
    some = events.only(chosen)
    return replace(some, fate=np.full(len(some), CODES[Fate.ON_TIME], np.int8))


def _counted(shared: Shared[LogComputation], part: Logged) -> dict[int, Counts]:
    measures = list(shared.value.measures)
    found = shared.value.judged(part, measures)
    return counts_by_batch(((rows, flat(few.column("batch"))) for _, few, rows in found), measures)


# Fates, summed up by batch in every unit of the ledger


_DIGITS = 6
"""How many digits amounts of the ledger have after the point."""
_AMOUNT = pa.decimal256(76, _DIGITS)
"""No sum of amounts outgrows this."""


def judged_parts(
    parts: Iterable[pa.Table],
    layout: EventLayout,
    periods: Periods,
    timeline: JudgingWatermarks,
    last: int,
    wanted: Sequence[str],
) -> Iterator[tuple[Output, pa.Table, JudgedEvents]]:
    """The events of batches up to the last, a part at a time: the output under the policy of their batch, the events as
    they were logged, and judged."""
    for part in parts:
        for under, events in _by_period(part, periods, last):
            for few in in_parts(events, under.window):
                yield under, few, judged(few, layout, under, timeline, wanted)


def _by_period(events: pa.Table, periods: Periods, last: int) -> Iterator[tuple[Output, pa.Table]]:
    """The events of batches up to the last, with the output under the policy of their batch."""
    batch = flat(events.column("batch"))
    untils = [*(since for since, _ in periods[1:]), last + 1]
    for (since, under), until in zip(periods, untils, strict=True):
        within = pc.and_(pc.greater_equal(batch, since), pc.less(batch, min(until, last + 1)))
        found = events.filter(within)
        if found.num_rows:
            yield under, found


def _in_ledger_digits(column: pa.Array) -> pa.Array:
    """The amounts of a measure, as the ledger has them: null is 0. No measure has more digits after the point."""
    numbers = (
        column.cast(pa.int64()).cast(pa.decimal128(19, 0)) if pa.types.is_integer(column.type) else column
    )
    return pc.fill_null(numbers.cast(_AMOUNT), pa.scalar(Decimal(0), _AMOUNT))


def counts_by_batch(
    events: Iterable[tuple[JudgedEvents, pa.Array]], measures: Sequence[str]
) -> dict[int, Counts]:
    """The counts of each batch, from judged events and the batch in which each row of the log was logged."""
    return joined_by_batch(_counts_of(found, batch, measures) for found, batch in events)


def joined_by_batch(parts: Iterable[Mapping[int, Counts]]) -> dict[int, Counts]:
    """The counts of several parts together."""
    total: dict[int, Counts] = {}
    for part in parts:
        for batch, counts in part.items():
            total[batch] = Counts.joined([total[batch], counts]) if batch in total else counts
    return total


def _counts_of(found: JudgedEvents, batch: pa.Array, measures: Sequence[str]) -> dict[int, Counts]:
    leads, zero = pa.array(found.leading), pa.scalar(Decimal(0), _AMOUNT)
    columns = [
        batch.take(pa.array(found.nth)),
        pa.array(found.fate),
        as_count(found.leading & (found.time < found.watermark)),
        as_count(found.partly),
        as_count(found.leading),
        as_count(np.ones(len(found), bool)),
        *(pc.if_else(leads, _in_ledger_digits(found.columns[name]), zero) for name in measures),
    ]
    names = ["batch", "fate", *map(str, range(len(columns) - 2))]  # those of measures may be any
    sums = pa.table(columns, names).group_by(names[:2], use_threads=False)
    rows = sums.aggregate([(name, "sum") for name in names[2:]]).select(
        [*names[:2], *(f"{name}_sum" for name in names[2:])]
    )
    return joined_by_batch(
        {number: Counts(_of_one(FATES[code], (EVENTS, ASSIGNMENTS, *measures), amounts), late, partly)}
        for number, code, late, partly, *amounts in zip(*rows.to_pydict().values(), strict=True)
    )


def _of_one(fate: Fate, units: Sequence[str], amounts: Sequence[Any]) -> dict[str, dict[Fate, Decimal]]:
    return {unit: {fate: Decimal(amount)} for unit, amount in zip(units, amounts, strict=True)}
