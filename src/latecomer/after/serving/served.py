"""Serving: the numbers of the stream with their corrections, or with those of a rebuild."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from latecomer.after.reading.choices import Grain, Origin
from latecomer.after.reading.reader import Reader
from latecomer.after.reading.states import quotient
from latecomer.after.serving.correcting import Corrections, corrections_of, fitted
from latecomer.after.serving.private_columns import STATES
from latecomer.after.serving.statement import (
    DATAFUSION,
    base_columns,
    before_rebuild,
    counting,
    served,
    serving_names,
    standing_numbers,
)
from latecomer.after.serving.states import merged
from latecomer.errors import PipelineError, Problem
from latecomer.model.durations import UNITS
from latecomer.model.windows import Calendar, Session, Tumbling, zone_of
from latecomer.store.delta.table import with_empty_ones
from latecomer.store.included import IncludedEvents
from latecomer.store.layout import TIMESTAMP
from latecomer.store.sql import double_quoted


def serving(reader: Reader, output: str, chosen: str = "true") -> pa.Table:
    """Base plus correction for each window and key, with both beside it. `chosen` is a condition on them, in SQL.

    The base is the number that stands; corrections that a rebuild includes no longer count. A window and key with only
    late events has a base of nothing: 0 for sums and counts. What cannot be added is merged from the states of both;
    what cannot be merged is null where there is a correction, and the reader's notes say so.
    """
    ours = corrections_of(reader, output)
    base, corrections = standing_numbers(DATAFUSION, ours, "t"), counting_corrections(reader, ours)
    rows = _ask(ours, served(DATAFUSION, ours, base, corrections), served_schema(ours), chosen=chosen)
    reader.notes = _notes(ours, rows)
    return rows


def preferred(reader: Reader, output: str, prefer: Origin, chosen: str = "true") -> pa.Table:
    """One number for each window and key, and where it comes from.

    `live` and `corrected` give what the stream published before a rebuild, without and with what came late;
    `rebuilt` gives what stands, with what came late since.
    """
    ours = corrections_of(reader, output)
    columns = [*base_columns(ours), ours.named("origin")]
    panes, corrections = "t", counting_corrections(reader, ours)
    if prefer is not Origin.REBUILT:
        panes = before_rebuild(DATAFUSION, ours, "t")
        corrections = counting(DATAFUSION, ours, "t", "c", before=True)
    base = standing_numbers(DATAFUSION, ours, panes)
    if prefer is Origin.LIVE:
        numbers = f"select *, '{Origin.LIVE}' as {double_quoted(columns[-1])} from ({base})"
    else:
        numbers = served(DATAFUSION, ours, base, corrections)
    kinds = [*(ours.layout.published.field(name) for name in columns[:-1]), (columns[-1], pa.string())]
    states = [] if prefer is Origin.LIVE else [STATES + name for name in DATAFUSION.merges(ours)]
    sql = f"select {DATAFUSION.listed([*columns, *states])} from ({numbers})"
    rows = _ask(ours, sql, pa.schema(kinds), chosen=chosen)
    reader.notes = _notes(ours, rows)
    return rows


def corrections(reader: Reader, output: str, until: int | None = None) -> pa.Table:
    """Every correction that counts: a row for each window, key and batch, as stored.

    Corrections that a rebuild includes are left out. With `until`, only panes up to this batch are known.
    """
    ours = corrections_of(reader, output)
    reader.notes = ours.notes()
    return _ask(ours, f"select * from {counting_corrections(reader, ours, until)}", ours.schema, "batch")


def counting_corrections(
    reader: Reader, ours: Corrections, until: int | None = None, chosen: str = "true"
) -> str:
    """The corrections that no rebuild includes."""
    last = ours.tables.panes.last_batch() if until is None else until
    known = chosen if until is None else f"{chosen} and batch <= {until}"
    panes = "t" if known == "true" else f"(select * from t where {known})"
    counted = counting(DATAFUSION, ours, panes, "c")
    included = IncludedEvents.of(reader.store(), ours.name, last)
    return f"(select * from {counted} as counted where not ({included.sql()}))" if included.cases else counted


def _ask(ours: Corrections, sql: str, schema: pa.Schema, *then_by: str, chosen: str = "true") -> pa.Table:
    order = DATAFUSION.listed([*ours.place, *then_by])
    with with_empty_ones(ours.panes, ours.table) as (panes, corrections):
        rows = panes.query(f"select * from ({sql}) where {chosen} order by {order}", c=corrections)
    made = fitted(ours, rows, schema)
    return _corrected(ours, rows, made) if ours.named("origin") in schema.names else made


def served_schema(ours: Corrections) -> pa.Schema:
    """The columns of serving."""
    fields = [ours.layout.published.field(name) for name in ours.place]
    for name in ours.output.aggregates:
        kind = ours.layout.published.field(name).type
        shown = serving_names(ours, name) if name in ours.added else serving_names(ours, name)[:1]
        fields += [pa.field(each, kind) for each in (name, *shown)]
    fields += [pa.field(ours.late_events, pa.int64())]
    fields += [ours.layout.published.field(name) for name in ("sequence", "timing")]
    return pa.schema([*fields, (ours.named("origin"), pa.string())])


def _corrected(ours: Corrections, stated: pa.Table, rows: pa.Table) -> pa.Table:
    """The rows, with the values of corrected ones that SQL does not add up: merged from states, and averages from sums
    and counts."""
    origins = rows[ours.named("origin")].to_pylist()
    corrected = [nth for nth, origin in enumerate(origins) if origin == Origin.CORRECTED]
    for name in (*ours.stated, *ours.derived):
        if name in ours.stated and STATES + name not in stated.schema.names:
            continue
        field = rows.schema.field(name)
        values = rows[name].to_pylist()
        for nth in corrected:
            values[nth] = None
        if name in ours.stated:
            states = stated[STATES + name].to_pylist()
            some = [nth for nth in corrected if states[nth] is not None]
            made = merged(ours.layout, name, [states[nth] for nth in some])
        else:
            totals, counts = (rows[each].to_pylist() for each in ours.derived[name])
            some = [nth for nth in corrected if counts[nth] and totals[nth] is not None]
            made = [quotient(totals[nth], counts[nth], field.type) for nth in some]
        for nth, value in zip(some, made, strict=True):
            values[nth] = value
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
    return rows


def _notes(ours: Corrections, rows: pa.Table) -> list[str]:
    """What cannot be corrected, where anything is corrected."""
    return ours.notes() if Origin.CORRECTED in rows[ours.named("origin")].to_pylist() else []


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
