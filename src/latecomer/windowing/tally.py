"""The fates of events, summed up by batch in every unit of the ledger: a pure function of the log's events, a part of
them at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.log.timeline.watermarks import JudgingWatermarks
from latecomer.model.arrays import flat
from latecomer.model.ledger import ASSIGNMENTS, EVENTS, EXACT
from latecomer.model.verdicts import Fate
from latecomer.store.layout import EventLayout
from latecomer.windowing.aggregates.base import as_count
from latecomer.windowing.fates import FATES, Counts, Periods
from latecomer.windowing.judge import Judged, in_parts, judged

_DIGITS = 6
"""How many digits amounts of the ledger have after the point."""
_AMOUNT = pa.decimal256(76, _DIGITS)
"""No sum of amounts outgrows this."""
_WIDE, _ZERO = Context(prec=EXACT), Decimal("0.000000")
_LATE, _PARTLY = "late_at_source", "partly_late"
_BATCH, _FATE = "batch", "fate"


def judged_parts(
    parts: Iterable[pa.Table],
    layout: EventLayout,
    periods: Periods,
    timeline: JudgingWatermarks,
    last: int,
    wanted: Sequence[str],
) -> Iterator[tuple[Output, pa.Table, Judged]]:
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


class Sums:
    """Exact sums by batch and fate: how many events met the fate, and how much of each measure."""

    def __init__(self, measures: Sequence[str]) -> None:
        self.units = (EVENTS, ASSIGNMENTS, *measures)
        self.by_place: dict[tuple[int, int], dict[str, Decimal]] = {}

    @classmethod
    def of(cls, events: Iterable[tuple[Judged, pa.Array]], measures: Sequence[str]) -> Sums:
        """The sums of judged events, with the batch in which each row of the log was logged."""
        sums = cls(measures)
        for found, batch in events:
            sums._count(found, batch)
        return sums

    def _count(self, found: Judged, batch: pa.Array) -> None:
        leads, zero = pa.array(found.leading), pa.scalar(Decimal(0), _AMOUNT)
        amounts = {
            EVENTS: as_count(found.leading),
            ASSIGNMENTS: as_count(np.ones(len(found), bool)),
            _LATE: as_count(found.leading & (found.time < found.watermark)),
            _PARTLY: as_count(found.partly),
        }
        for name in self.units[2:]:
            amounts[name] = pc.if_else(leads, _in_ledger_digits(found.columns[name]), zero)
        place = {_BATCH: batch.take(pa.array(found.nth)), _FATE: pa.array(found.fate)}
        numbered = {str(nth): column for nth, column in enumerate(amounts.values())}  # names may be any
        sums = pa.table({**place, **numbered}).group_by([_BATCH, _FATE], use_threads=False)
        for row in sums.aggregate([(nth, "sum") for nth in numbered]).to_pylist():
            more = {name: Decimal(row[f"{nth}_sum"]) for nth, name in enumerate(amounts)}
            self._add((row[_BATCH], row[_FATE]), more)

    def _add(self, place: tuple[int, int], more: Mapping[str, Decimal]) -> None:
        known = self.by_place.setdefault(place, dict.fromkeys(more, _ZERO))
        for name, amount in more.items():
            known[name] = _WIDE.add(known[name], amount)

    @classmethod
    def joined(cls, parts: Iterable[Sums], measures: Sequence[str]) -> Sums:
        """The sums of several parts together."""
        total = cls(measures)
        for part in parts:
            for place, more in part.by_place.items():
                total._add(place, more)
        return total

    def counts(self) -> dict[int, Counts]:
        """The sums of each batch, as the ledger has them."""
        fates: dict[int, dict[str, dict[Fate, Decimal]]] = {}
        notes: dict[int, dict[str, int]] = {}
        for (batch, code), found in self.by_place.items():
            for unit, by_fate in fates.setdefault(batch, {unit: {} for unit in self.units}).items():
                by_fate[FATES[code]] = found[unit]
            counts = notes.setdefault(batch, {_LATE: 0, _PARTLY: 0})
            for name in counts:
                counts[name] += int(found[name])
        return {batch: Counts(counted, **notes[batch]) for batch, counted in fates.items()}
