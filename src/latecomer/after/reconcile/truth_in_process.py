"""The truth by the log without Spark: what `truth.py` says in SQL, with Arrow, for the common case (ADR 0068)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import MOST_ROWS, Declined, flat
from latecomer.firing.batch import Batch
from latecomer.firing.output import OutputLogic
from latecomer.firing.sessions import SessionLogic
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
from latecomer.windowing.tally_in_process import stored_columns

_LOW, _HIGH = ".low", ".high"


def rows_here(logic: OutputLogic, logged: Logged, stretch: Stretch) -> pa.Table:
    """Every aggregate over all events: judged by a timeline on which nothing is ever late."""
    arrow, schema = ArrowMerger(logic.merger), logic.merger.schema
    timeline = Watermarks.of_batches({(batch, row.tick): BEGIN_OF_TIME for batch, row in stretch.rows})
    layout, output = logic.store.layout, logic.output
    merged = arrow.merge_parts(
        _only(judged(part, layout, output, timeline, arrow.columns), Fate.ON_TIME)
        for part in logged.parts(stored_columns(layout, [output], arrow.columns))
    )
    if merged is None:
        raise Declined("no event in any window")
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
    columns = [each.column for each in additive.values() if each.column is not None]
    wanted = list(dict.fromkeys([*logic.layout.keys, *columns]))
    untils = [*(since for since, _ in periods[1:]), last + 1]
    parts, layout = [], logic.store.layout
    for part in logged.parts(stored_columns(layout, [under for _, under in periods], wanted)):
        for (since, under), until in zip(periods, untils, strict=True):
            batch = part.column("batch")
            events = part.filter(pc.and_(pc.greater_equal(batch, since), pc.less(batch, until)))
            found = judged(events, layout, under, stretch.by_batch, wanted)
            parts.append(_terms(logic, _only(found, Fate.DROPPED), additive))
        if sum(terms.num_rows for terms in parts) > MOST_ROWS:
            raise Declined(f"more than {MOST_ROWS:,} dropped events")
    if not parts:
        raise Declined("no event of these batches")
    return _summed(logic, pa.concat_tables(parts), additive)


def session_rows(logic: SessionLogic, logged: Logged) -> pa.Table:
    """`rows_here` of sessions."""
    found = logic.whole(logged)
    names = (*logic.layout.keys, *logic.layout.values)
    return pa.table({**_windows(found), **{name: found.column(name) for name in names}})


def dropped_from_sessions(
    logic: SessionLogic,
    logged: Logged,
    stretch: Stretch,
    periods: Periods,
    last: int,
    additive: Mapping[str, Aggregate],
) -> pa.Table:
    """`dropped_here` of sessions."""
    wanted = [each.column for each in additive.values() if each.column is not None]
    log = Batch(last, stretch, logged, history=True)
    found = (judged for _, judged in logic.judged(log, wanted, periods))
    terms = [_terms(logic, _only(each, Fate.DROPPED), additive) for each in found]
    return _summed(logic, pa.concat_tables(terms), additive)


def _only(found: Judged, fate: Fate) -> Judged:
    return found.only(found.fate == CODES[fate])


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
