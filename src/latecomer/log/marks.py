"""The marks of a punctuated watermark: the moment that each event marks, if any. A kernel."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.moments import micros, possible
from latecomer.model.arrays import flat
from latecomer.model.simple_predicates import needs_spark, predicate
from latecomer.model.strategies import Needs
from latecomer.store.layout import Reading


def marked_moments(events: pa.Table, reading: Reading, needs: Needs) -> pa.Array:
    """The moment that each event of the log marks, in microseconds; null if it is no mark. All are null if only Spark
    can evaluate the condition."""
    time = flat(events.column("event_time")).cast(pa.int64())
    none = pa.scalar(None, pa.int64())
    if needs.marker is not None:
        return _of_marker(events, reading, needs.marker, time)
    if needs_spark(needs.where, reading.log.types):
        return pa.nulls(events.num_rows, pa.int64())
    view, where = reading.log.view, str(needs.where)
    holds = predicate(where, reading.log.types)
    named = {name: flat(events.column(view[name])).to_pylist() for name in view if name in where}
    rows = zip(*named.values(), strict=True) if named else iter([()] * events.num_rows)
    marks = np.array([holds(dict(zip(named, row, strict=True))) is True for row in rows], bool)
    return pc.if_else(pa.array(marks), time, none)


def _of_marker(events: pa.Table, reading: Reading, marker: str, time: pa.Array) -> pa.Array:
    kind, event, stored = reading.columns[marker], reading.pipeline.event, reading.log.view[marker]
    column, none = flat(events.column(stored)), pa.scalar(None, pa.int64())
    if kind == "boolean":
        return pc.if_else(column.fill_null(False), time, none)
    in_envelope = stored in ("event_time", "arrival_time")
    # A wall-clock time is stored as if it were UTC.
    if kind == "timestamp_ntz" and not in_envelope:
        column = column.cast(pa.int64()).cast(pa.timestamp("us"))
    read = micros(column, "timestamp" if in_envelope else kind, event.unit, event.zone)
    marked, ahead = possible(read), reading.pipeline.watermark.max_future
    if ahead is None:
        return marked
    arrival = flat(events.column("arrival_time")).cast(pa.int64())
    return pc.if_else(pc.less_equal(pc.subtract(marked, arrival), ahead), marked, none)
