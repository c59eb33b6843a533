"""The fates of events, summed up by batch in every unit of the ledger: a pure function of the log's events, a part of
them at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

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


def counts_by_batch(events: Iterable[tuple[Judged, pa.Array]], measures: Sequence[str]) -> dict[int, Counts]:
    """The counts of each batch, from judged events and the batch in which each row of the log was logged."""
    return joined_by_batch(_counted(found, batch, measures) for found, batch in events)


def joined_by_batch(parts: Iterable[Mapping[int, Counts]]) -> dict[int, Counts]:
    """The counts of several parts together."""
    total: dict[int, Counts] = {}
    for part in parts:
        for batch, counts in part.items():
            total[batch] = Counts.joined([total[batch], counts]) if batch in total else counts
    return total


def _counted(found: Judged, batch: pa.Array, measures: Sequence[str]) -> dict[int, Counts]:
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
