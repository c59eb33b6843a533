"""How corrections are added up: by window and key, or by hour or day and key.

A coarser correction is the sum of finer ones. It is made when it is read: a table with two grains would count every
late event twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from latecomer.after.reading.choices import Grain
from latecomer.after.reading.reader import Reader
from latecomer.after.serving.correcting import Corrections, corrections_of, fitted
from latecomer.errors import PipelineError, Problem
from latecomer.model.durations import UNITS
from latecomer.model.windows import Calendar, Session, Tumbling, zone_of
from latecomer.store.layout import TIMESTAMP


def by_grain(reader: Reader, output: str, rows: pa.Table, grain: Grain = Grain.WINDOW) -> pa.Table:
    """Rows of `corrections` added up. A window counts where it begins, in its own zone."""
    ours = corrections_of(reader, output)
    period = _period(ours, grain)
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row, place in zip(rows.to_pylist(), _places(ours, rows, period), strict=True):
        groups.setdefault(place, []).append(row)
    schema = row_schema(ours)
    first, last = schema.names[-3:-1]
    sums = [
        {
            **dict(zip(ours.place, place, strict=True)),
            **{name: _added_up(ours, name, group) for name in ours.added},
            ours.late_events: sum(row[ours.late_events] for row in group),
            first: min(row["batch"] for row in group),
            last: max(row["batch"] for row in group),
            ours.corrected_at: max(row[ours.corrected_at] for row in group),
        }
        for place, group in groups.items()
    ]
    table = pa.table({name: [row[name] for row in sums] for name in schema.names}, schema=_loose(schema))
    order = [(name, "ascending") for name in ours.place]
    return fitted(ours, table, schema).sort_by(order)


def _added_up(ours: Corrections, name: str, group: Sequence[Mapping[str, Any]]) -> Any:
    """The value of an aggregate over some rows; null where a row was written before the output had it."""
    if any(row["batch"] < ours.since.get(name, 0) for row in group):
        return None
    return ours.added[name].add_up([row[name] for row in group])


def check_grain(reader: Reader, output: str, grain: Grain) -> None:
    """Refuse a grain by which corrections cannot be added up, before any correction is made."""
    _period(corrections_of(reader, output), grain)


def row_schema(ours: Corrections) -> pa.Schema:
    """The columns of corrections that are added up: those stored, with the first and last batch covered."""
    fields = []
    for field in ours.schema:
        if field.name != "batch":
            fields.append(field)
        if field.name == ours.late_events:
            fields += [pa.field(ours.named(name), pa.int64()) for name in ("first_batch", "last_batch")]
    return pa.schema(fields)


def _loose(schema: pa.Schema) -> pa.Schema:
    """Moments as microseconds, whole numbers with room for a sum."""
    return pa.schema(
        [
            pa.field(field.name, pa.decimal256(76, 0))
            if pa.types.is_int64(field.type)
            else pa.field(field.name, pa.decimal256(76, field.type.scale))
            if pa.types.is_decimal(field.type)
            else field
            for field in schema
        ]
    )


def _places(
    ours: Corrections, rows: pa.Table, period: Tumbling | Calendar | None
) -> Iterator[tuple[Any, ...]]:
    """For each row the interval and the key that it is added to."""
    keys = [rows[name].to_pylist() for name in ours.layout.keys]
    starts, ends = (
        rows[name].cast(TIMESTAMP).cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")
    )
    if period is not None:
        intervals = {start: period.assign_all(start)[0] for start in set(starts)}
        starts, ends = [intervals[at].start for at in starts], [intervals[at].end for at in starts]
    return zip(starts, ends, *keys, strict=True)


def _period(ours: Corrections, grain: Grain) -> Tumbling | Calendar | None:
    """The hours or days of the output's zone; an error where they are not coarser than its windows."""
    if grain is Grain.WINDOW:
        return None
    window = ours.output.window
    longest = UNITS["h"] if grain is Grain.HOUR else UNITS["d"]
    reason = None
    if window.overlaps:
        reason = "cannot be said of windows that overlap: an event would count once for each"
    elif not isinstance(window, Session) and window.step > longest:
        reason = "is shorter than the output's windows"
    if reason is not None:
        problem = Problem("by", reason, grain.value, "use --by window", f"output {ours.name}")
        raise PipelineError([problem])
    zone = zone_of(window)
    if grain is Grain.HOUR:
        return Tumbling.model_validate({"tumbling": "1h", "zone": zone})
    return Calendar.model_validate({"calendar": "day", "zone": zone})
