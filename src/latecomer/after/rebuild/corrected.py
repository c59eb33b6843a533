"""Makes the CORRECTION panes of a rebuild from its changes. Without Spark: they are few.

Batch, moment and watermark are filled in when the panes are published.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.rebuild.private_columns import AFTER, PRIOR, SEQUENCE
from latecomer.after.rebuild.rebuilt import Range, counters, place_names, stated_kinds
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.store.files import Location, new_parquet, open_parquet, parquet_files
from latecomer.windowing.firing.panes import constant, timing_and_op


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
    stated = {name: field_of(rows, AFTER, name) for name in stated_kinds(logic)}
    zero = {name: constant(0, rows.num_rows) for name in counters(logic)}
    firing = {"sequence": pc.fill_null(rows[SEQUENCE], 0), **_firing(rows.num_rows, Op.INSERT)}
    merged = pa.table({**{name: rows[name] for name in place_names(logic)}, **stated, **zero})
    return logic.merger.published(merged, firing)


def _retracts(range_: Range, part: pa.Table) -> pa.Table:
    logic = range_.logic
    taken_back = pc.is_valid(part[PRIOR])
    # Where nothing was ever to be replaced, sinks may add up what they receive: so all is retracted.
    if logic.output.accumulation is Accumulation.ACCUMULATING and logic.output.replaces:
        taken_back = pc.and_(taken_back, pc.is_null(part[AFTER]))
    prior = pc.list_flatten(part.filter(taken_back)[PRIOR])
    schema, firing = logic.merger.schema, _firing(len(prior), Op.RETRACT)
    columns = {
        name: firing[name] if name in firing else pc.struct_field(prior, name) for name in schema.names
    }
    return pa.table(columns).cast(schema)


def _firing(rows: int, op: Op) -> dict[str, pa.Array]:
    unknown = {name: constant(None, rows) for name in ("batch", "fired_at", "watermark")}
    return {
        **timing_and_op(Timing.CORRECTION, op, rows),
        "is_last": pa.repeat(pa.scalar(False), rows),
        **unknown,
    }
