"""Makes the CORRECTION panes of a rebuild from its changes. Without Spark: they are few.

Batch, moment and watermark are filled in when the panes are published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.rebuild.columns import AFTER, PRIOR, SEQUENCE
from latecomer.after.rebuild.rebuilt import Range, counters
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.store.files import Location, new_parquet, open_parquet, parquet_files
from latecomer.store.layout import TIMESTAMP, arrow_type
from latecomer.windowing.columns import END, START


def parts(folder: Location) -> Iterator[pa.Table]:
    """The changes of a rebuild, some thousand rows at a time."""
    for file in parquet_files(folder):
        with open_parquet(file) as changes:
            for part in changes.iter_batches():
                yield pa.table(part)


def write_panes(range_: Range, changes: Location, folder: Location) -> None:
    """Write a pane for each window and key that changes. Before it comes the retract of what it replaces, where the
    output retracts what it replaces, or where nothing takes its place."""
    logic = range_.logic
    with new_parquet(folder / "panes.parquet", logic.merger.schema) as writer:
        for part in parts(changes):
            for panes in (_retracts(range_, part), _inserts(range_, part)):
                if panes.num_rows:
                    writer.write_table(panes)


def field_of(rows: pa.Table, side: str, name: str) -> pa.ChunkedArray:
    """A value or state, before or after."""
    return pc.struct_field(rows[side], name)


def _inserts(range_: Range, part: pa.Table) -> pa.Table:
    logic = range_.logic
    rows = part.filter(pc.is_valid(part[AFTER]))
    zero = {name: arrow_type(logic.merger.state_columns[name]) for name in counters(logic)}
    columns: dict[str, Any] = {
        "window_start": rows[START].cast(TIMESTAMP),
        "window_end": rows[END].cast(TIMESTAMP),
        **{key: rows[key] for key in logic.layout.keys},
        "sequence": pc.fill_null(rows[SEQUENCE], 0),
        **_firing(rows.num_rows, Op.INSERT),
    }
    for name in (*logic.layout.values, *logic.merger.state_columns):
        columns[name] = (
            pa.array([0] * rows.num_rows).cast(zero[name]) if name in zero else field_of(rows, AFTER, name)
        )
    return _fitted(columns, logic.merger.schema)


def _retracts(range_: Range, part: pa.Table) -> pa.Table:
    logic = range_.logic
    taken_back = pc.is_valid(part[PRIOR])
    # Where nothing was ever to be replaced, sinks may add up what they receive: so all is retracted.
    if logic.output.accumulation is Accumulation.ACCUMULATING and logic.output.replaces:
        taken_back = pc.and_(taken_back, pc.is_null(part[AFTER]))
    prior = pc.list_flatten(part.filter(taken_back)[PRIOR])
    columns = {name: pc.struct_field(prior, name) for name in logic.merger.schema.names}
    return _fitted({**columns, **_firing(len(prior), Op.RETRACT)}, logic.merger.schema)


def _firing(rows: int, op: Op) -> dict[str, Any]:
    return {
        "timing": [Timing.CORRECTION.value] * rows,
        "op": [op.value] * rows,
        "is_last": [False] * rows,
        "batch": [None] * rows,
        "fired_at": [None] * rows,
        "watermark": [None] * rows,
    }


def _fitted(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """The columns in the order and types of panes; lists get their type here."""
    return pa.table(
        {
            field.name: pa.array(columns[field.name], field.type)
            if isinstance(columns[field.name], list)
            else columns[field.name].cast(field.type)
            for field in schema
        }
    )
