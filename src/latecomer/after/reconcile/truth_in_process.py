"""The truth by the log without Spark: what `truth.py` says in SQL, with Arrow, for the common case (ADR 0068)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import Declined, flat
from latecomer.firing.output import OutputLogic
from latecomer.log.logged import Logged
from latecomer.model import types
from latecomer.model.aggregates import Aggregate
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.store.layout import TIMESTAMP
from latecomer.timeline.keeper import Stretch
from latecomer.windowing.columns import END, START
from latecomer.windowing.exact_arrow import finite, halves, scaled, unscaled, whole
from latecomer.windowing.judge import CODES, Periods
from latecomer.windowing.judge_in_process import Judged, Watermarks, judged
from latecomer.windowing.merge_in_process import ArrowMerger

_LOW, _HIGH = ".low", ".high"


def rows_here(logic: OutputLogic, logged: Logged, stretch: Stretch) -> pa.Table:
    """Every aggregate over all events: judged by a timeline on which nothing is ever late."""
    arrow, schema = ArrowMerger(logic.merger), logic.merger.schema
    timeline = Watermarks.of_batches({(batch, row.tick): BEGIN_OF_TIME for batch, row in stretch.rows})
    found = judged(logged.table, logic.store.layout, logic.output, timeline, arrow.columns)
    found = found.only(found.fate == CODES[Fate.ON_TIME])
    if not len(found):
        raise Declined("no event in any window")
    merged = arrow.merge([arrow.of_events(found)])
    names = (*logic.layout.keys, *logic.layout.values)
    values = {name: flat(merged.column(name)).cast(schema.field(name).type) for name in names}
    return pa.table({**_windows(merged), **values})


def dropped_here(
    logic: OutputLogic,
    logged: Logged,
    stretch: Stretch,
    periods: Periods,
    last: int,
    additive: Mapping[str, Aggregate],
) -> pa.Table:
    """What the dropped events would have added, judged by the watermarks and policies of their time."""
    if any(kind in types.FLOATS for kind in logic.layout.keys.values()):
        raise Declined("a key of floating point numbers")
    timeline = Watermarks.of_batches({(batch, row.tick): row.watermark for batch, row in stretch.rows})
    columns = [each.column for each in additive.values() if each.column is not None]
    wanted = list(dict.fromkeys([*logic.layout.keys, *columns]))
    untils = [*(since for since, _ in periods[1:]), last + 1]
    parts = []
    for (since, under), until in zip(periods, untils, strict=True):
        batch = logged.table.column("batch")
        events = logged.table.filter(pc.and_(pc.greater_equal(batch, since), pc.less(batch, until)))
        if events.num_rows:
            found = judged(events, logic.store.layout, under, timeline, wanted)
            parts.append(_terms(logic, found.only(found.fate == CODES[Fate.DROPPED]), additive))
    if not parts:
        raise Declined("no event of these batches")
    return _summed(logic, pa.concat_tables(parts), additive)


def _terms(logic: OutputLogic, found: Judged, additive: Mapping[str, Aggregate]) -> pa.Table:
    """What each event adds, where it belongs."""
    terms: dict[str, pa.Array] = {START: pa.array(found.start), END: pa.array(found.end)}
    terms |= {key: found.columns[key] for key in logic.layout.keys}
    made: dict[str, pa.Array] = {}
    for name, each in additive.items():
        if each.column is None:
            made[name] = pa.repeat(pa.scalar(1, pa.int64()), len(found))
        elif each.function == "count":
            made[name] = found.columns[each.column].is_valid().cast(pa.int64())
        elif types.is_exact(logic.layout.types[each.column]):
            made[name + _LOW], made[name + _HIGH] = halves(unscaled(found.columns[each.column]))
        else:
            made[name] = finite(found.columns[each.column].cast(pa.float64()))
    return pa.table([*terms.values(), *made.values()], names=[*terms, *(f"{KEPT}{name}" for name in made)])


KEPT = "of "
"""Before the names of sums: an aggregate may be called as a key is."""


def _summed(logic: OutputLogic, terms: pa.Table, additive: Mapping[str, Aggregate]) -> pa.Table:
    place: Sequence[str] = [START, END, *logic.layout.keys]
    sums = [name for name in terms.column_names if name not in place]
    found = terms.group_by(place, use_threads=False).aggregate([(name, "sum") for name in sums])
    made = {key: found.column(key) for key in logic.layout.keys}
    for name, each in additive.items():
        if f"{KEPT}{name}{_LOW}_sum" not in found.column_names:
            made[name] = found.column(f"{KEPT}{name}_sum")
            continue
        low, high = (flat(found.column(f"{KEPT}{name}{half}_sum")) for half in (_LOW, _HIGH))
        kind = pa.decimal128(38, types.scale_of(logic.layout.types[str(each.column)]))
        made[name] = scaled(whole(low, high), kind)
    return pa.table({**_windows(found), **made})


def _windows(rows: pa.Table) -> dict[str, pa.Array]:
    moments = {"window_start": START, "window_end": END}
    return {name: flat(rows.column(column)).cast(TIMESTAMP) for name, column in moments.items()}
