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
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.verdicts import Fate
from latecomer.store.layout import EventLayout
from latecomer.windowing.aggregates.base import as_count
from latecomer.windowing.fates import FATES, Counts, Periods
from latecomer.windowing.judge import Judged, in_parts, judged

_DIGITS = 6
"""How many digits amounts of the ledger have after the point."""
_AMOUNT = pa.decimal256(76, _DIGITS)
"""No sum of amounts outgrows this."""
_WIDE, _ZERO = Context(prec=80), Decimal("0.000000")
_LATE, _PARTLY = "late_at_source", "partly_late"
_BATCH, _FATE = "batch", "fate"


def fate_sums(
    parts: Iterable[pa.Table],
    layout: EventLayout,
    measures: Sequence[str],
    periods: Periods,
    timeline: JudgingWatermarks,
    last: int,
) -> Sums:
    """For each batch up to the last and each fate: how many events met it, and how much of each measure. Events are
    judged by the policy of their batch."""
    sums = Sums([EVENTS, ASSIGNMENTS, *measures, _LATE, _PARTLY])
    for part in parts:
        for under, events in by_period(part, periods, last):
            for few in in_parts(events, under.window):
                found = judged(few, layout, under, timeline, measures)
                sums.add(*_counted(found, flat(few.column("batch")), measures))
    return sums


def counts_of(events: Iterable[tuple[Judged, pa.Array]], measures: Sequence[str]) -> dict[int, Counts]:
    """The same for events that are judged already, each with the batch in which it was logged."""
    sums = Sums([EVENTS, ASSIGNMENTS, *measures, _LATE, _PARTLY])
    for found, batch in events:
        sums.add(*_counted(found, batch, measures))
    return as_counts(sums, measures)


def by_period(events: pa.Table, periods: Periods, last: int) -> Iterator[tuple[Output, pa.Table]]:
    """The events of batches up to the last, with the output under the policy of their batch."""
    batch = flat(events.column("batch"))
    untils = [*(since for since, _ in periods[1:]), last + 1]
    for (since, under), until in zip(periods, untils, strict=True):
        within = pc.and_(pc.greater_equal(batch, since), pc.less(batch, min(until, last + 1)))
        found = events.filter(within)
        if found.num_rows:
            yield under, found


def _counted(
    found: Judged, batch: pa.Array, measures: Sequence[str]
) -> tuple[Mapping[str, pa.Array], Mapping[str, pa.Array]]:
    """The batch and fate for which each row counts, and what it adds to each sum."""
    leads, zero = pa.array(found.leading), pa.scalar(Decimal(0), _AMOUNT)
    amounts = {
        EVENTS: as_count(found.leading),
        ASSIGNMENTS: as_count(np.ones(len(found), bool)),
        _LATE: as_count(found.leading & (found.time < found.watermark)),
        _PARTLY: as_count(found.partly),
    }
    amounts |= {name: pc.if_else(leads, in_ledger_digits(found.columns[name]), zero) for name in measures}
    return {_BATCH: batch.take(pa.array(found.nth)), _FATE: pa.array(found.fate)}, amounts


def in_ledger_digits(column: pa.Array) -> pa.Array:
    """The amounts of a measure, as the ledger has them: null is 0. No measure has more digits after the point."""
    numbers = (
        column.cast(pa.int64()).cast(pa.decimal128(19, 0)) if pa.types.is_integer(column.type) else column
    )
    return pc.fill_null(numbers.cast(_AMOUNT), pa.scalar(Decimal(0), _AMOUNT))


class Sums:
    """Exact sums by place (batch and fate), added up part by part."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.by_place: dict[tuple[int, ...], dict[str, Decimal]] = {}

    def add(self, places: Mapping[str, pa.Array], amounts: Mapping[str, pa.Array]) -> None:
        """Add some rows: the place of each, and what it adds to each sum."""
        columns = {**places, **{f"{nth}.": amounts[name] for nth, name in enumerate(self.names)}}
        sums = [(f"{nth}.", "sum") for nth in range(len(self.names))]
        found = pa.table(columns).group_by(list(places), use_threads=False).aggregate(sums)
        for row in found.to_pylist():
            place = tuple(row[name] for name in places)
            self._add(place, {name: Decimal(row[f"{nth}._sum"]) for nth, name in enumerate(self.names)})

    def _add(self, place: tuple[int, ...], more: Mapping[str, Decimal]) -> None:
        known = self.by_place.setdefault(place, dict.fromkeys(self.names, _ZERO))
        for name in self.names:
            known[name] = _WIDE.add(known[name], more[name])

    @classmethod
    def joined(cls, parts: Iterable[Sums]) -> Sums:
        """The sums of several parts together."""
        total = cls([])
        for part in parts:
            total.names = part.names
            for place, more in part.by_place.items():
                total._add(place, more)
        return total


def as_counts(sums: Sums, measures: Sequence[str]) -> dict[int, Counts]:
    """The sums of each batch, as the ledger has them."""
    fates: dict[int, dict[str, dict[Fate, Decimal]]] = {}
    notes: dict[int, dict[str, int]] = {}
    for (batch, code), found in sums.by_place.items():
        counted = fates.setdefault(batch, {unit: {} for unit in (EVENTS, ASSIGNMENTS, *measures)})
        for unit, by_fate in counted.items():
            by_fate[FATES[code]] = found[unit]
        counts = notes.setdefault(batch, {_LATE: 0, _PARTLY: 0})
        for name in counts:
            counts[name] += int(found[name])
    return {batch: Counts(counted, **notes[batch]) for batch, counted in fates.items()}
