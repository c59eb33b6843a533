"""Serving: the numbers of the stream with their corrections, or with those of a rebuild."""

from __future__ import annotations

import pyarrow as pa

from latecomer.after.reading.choices import Origin
from latecomer.after.reading.folding import quotient
from latecomer.after.reading.reader import Reader
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
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT
from latecomer.store.rebuilds import Rebuilds, Record
from latecomer.store.sql import double_quoted, moment_literal
from latecomer.store.table import with_empty_ones


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
    """The corrections that no rebuild includes.

    A rebuild computes every closed window of its range. It publishes nothing where nothing differs, and another window
    where sessions were joined. So not its panes count, but its record: its whole range includes all late events.
    """
    last = ours.tables.panes.last_batch() if until is None else until
    known = chosen if until is None else f"{chosen} and batch <= {until}"
    panes = "t" if known == "true" else f"(select * from t where {known})"
    counted = counting(DATAFUSION, ours, panes, "c")
    rebuilds = Rebuilds(reader.pipeline.store_path, ours.name).published(last)
    included = [_included(ours, each.record) for each in rebuilds]
    if not included:
        return counted
    return f"(select * from {counted} as counted where not ({' or '.join(included)}))"


def _included(ours: Corrections, record: Record) -> str:
    since, until, closed = (
        moment_literal(min(max(micros, FIRST_MOMENT), END_OF_TIME))
        for micros in (record.since, record.until, record.watermark)
    )
    starts = f"window_start >= {since}"
    if ours.output.window.merges:
        starts = f"window_end > {since}"
    return f"(batch <= {record.through} and {starts} and window_start < {until} and window_end <= {closed})"


def _ask(ours: Corrections, sql: str, schema: pa.Schema, *then_by: str, chosen: str = "true") -> pa.Table:
    order = DATAFUSION.listed([*ours.place, *then_by])
    with with_empty_ones(ours.panes, ours.table) as (panes, corrections):
        rows = panes.query(f"select * from ({sql}) where {chosen} order by {order}", c=corrections)
    return _with_averages(ours, _with_merged(ours, rows, fitted(ours, rows, schema)))


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


def _with_merged(ours: Corrections, stated: pa.Table, rows: pa.Table) -> pa.Table:
    """The rows with the values merged from the states of corrected rows."""
    for name in ours.stated:
        if STATES + name not in stated.schema.names:
            continue
        field, origins = rows.schema.field(name), rows[ours.named("origin")].to_pylist()
        values, states = rows[name].to_pylist(), stated[STATES + name].to_pylist()
        corrected = [nth for nth, origin in enumerate(origins) if origin == Origin.CORRECTED]
        some = [nth for nth in corrected if states[nth] is not None]
        for nth in corrected:
            values[nth] = None
        for nth, value in zip(some, merged(ours.layout, name, [states[nth] for nth in some]), strict=True):
            values[nth] = value
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
    return rows


def _with_averages(ours: Corrections, rows: pa.Table) -> pa.Table:
    """The averages of corrected rows, from their sums and counts."""
    if not ours.derived or ours.named("origin") not in rows.schema.names:
        return rows
    corrected = [origin == Origin.CORRECTED for origin in rows[ours.named("origin")].to_pylist()]
    for name, (total, count) in ours.derived.items():
        field = rows.schema.field(name)
        columns = (rows[each].to_pylist() for each in (name, total, count))
        values = []
        for late, value, of_all, number in zip(corrected, *columns, strict=True):
            known = number and of_all is not None
            average = quotient(of_all, number, field.type) if late and known else None
            values.append(average if late else value)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
    return rows


def _notes(ours: Corrections, rows: pa.Table) -> list[str]:
    """What cannot be corrected, where anything is corrected."""
    return ours.notes() if Origin.CORRECTED in rows[ours.named("origin")].to_pylist() else []
