"""A plan: what computing a range of windows anew would change. It has the panes to publish, and figures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.rebuild.changes import CHANGED, NEW, WITHDRAWN, field_of, write_panes
from latecomer.after.rebuild.changes import changes as differences
from latecomer.after.rebuild.private_columns import AFTER, BEFORE, CHANGE
from latecomer.after.rebuild.rebuilt import (
    RebuiltRange,
    computed,
    events_of,
    open_states,
    published_panes,
    units,
)
from latecomer.log.progress import Watch, Watched
from latecomer.log.readable import ReadableLog
from latecomer.log.timeline.keeper import TimelineKeeper
from latecomer.model import types
from latecomer.model.durations import iso
from latecomer.model.ledger import exact_amounts
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.model.written_values import json_value
from latecomer.store.coverage import covered_since, require_windows
from latecomer.store.delta.data_files import DataFile
from latecomer.store.files import Location, dataset, parquet_files, write_table
from latecomer.store.layout import PaneLayout, arrow_type
from latecomer.store.private_columns import EVENTS
from latecomer.store.rebuilds import FAILED, Rebuild, RebuildRecord, Rebuilds
from latecomer.store.store import Store
from latecomer.windowing.firing.output import OutputLogic
from latecomer.windowing.firing.stopping import stopping_in_words
from latecomer.windowing.private_columns import END, START
from latecomer.windowing.spark_columns import computed as by_spark

LARGEST = 10


def planned(
    logic: OutputLogic,
    since: int,
    until: int,
    through: int,
    definition: Mapping[str, Any] | None,
    watch: Watch = lambda _: None,
    log: ReadableLog | None = None,
    rebuilds: Rebuilds | None = None,
) -> Rebuild:
    """A plan for the windows of an output that start in [since, until), by the log up to a batch.

    `definition` is the new definition of the output, where it changes; the logic has it already. The plan is kept in
    `rebuilds`: those of the store, by default.
    """
    store = logic.store
    reached = TimelineKeeper(store.watermarks, store.pipeline.watermark).reached(through)
    watermark = BEGIN_OF_TIME if reached is None else reached.watermark
    range_ = RebuiltRange(
        logic, since, until, through, watermark, definition is not None, covered_since(store) or BEGIN_OF_TIME
    )
    for first, _ in [(since, until)] if range_.session else range_.spans:
        require_range(store, logic.name, first)
    read = range_.files(store.events.files())
    panes = logic.tables.panes
    published = range_.panes(panes.files())
    rebuilds = rebuilds or Rebuilds(store.root, logic.name)
    draft, began = rebuilds.draft(), time.monotonic()
    progress = Watched(sum(file.rows for file in read), watch)
    with stopping_in_words(logic.name, logic.layout):
        changes, windows = _compute(
            range_, log or ReadableLog(logic.runner, store), read, published, progress, draft
        )
        write_panes(range_, changes, draft / "panes")
        record = _recorded(range_, changes, read, definition, draft, windows)
    progress.report(1.0)
    return rebuilds.keep(draft, replace(record, seconds=round(time.monotonic() - began, 3)))


def _compute(
    range_: RebuiltRange,
    log: ReadableLog,
    read: Sequence[DataFile],
    published: Sequence[DataFile],
    progress: Watched,
    draft: Location,
) -> tuple[pa.Table, int]:
    """What changes, and how many windows were computed. Where the definition of the output changes, the windows still
    open are written."""
    logic = range_.logic
    merger, store = logic.merger, logic.store
    events = events_of(range_, log, read)
    events.on_read = progress.read
    with by_spark(events, [logic.output], store.layout, logic.runner, store.root) as seen:
        truth = computed(range_, seen, draft / FAILED)
    panes = published_panes(range_, published)
    if range_.redefined:
        write_table(open_states(range_, truth, panes, merger), draft / "partials" / "open.parquet")
    return differences(range_, truth, panes, merger), truth.group_by([START, END]).aggregate([]).num_rows


def require_range(store: Store, output: str, since: int) -> None:
    """Refuse windows whose events retention has removed; the error says from when on the log is whole."""
    window = store.pipeline.outputs[output].window
    first = None if since == BEGIN_OF_TIME else since
    require_windows(store, f"a rebuild of output {output}", first, window)


def _recorded(
    range_: RebuiltRange,
    changes: pa.Table,
    read: Sequence[DataFile],
    definition: Mapping[str, Any] | None,
    draft: Location,
    windows: int,
) -> RebuildRecord:
    """A plan in figures."""
    logic, columns = range_.logic, units(range_.logic)
    aggregates = logic.output.aggregates
    additive = [name for name, each in aggregates.items() if each.function in ("sum", "count")]
    sums = {
        (side, name): _total(field_of(changes, side, name))
        for side in (BEFORE, AFTER)
        for name in (*additive, *columns.values())
    }
    with exact_amounts():
        taken_in = {
            unit: (sums[AFTER, column] or Decimal(0)) - (sums[BEFORE, column] or Decimal(0))
            for unit, column in columns.items()
        }
        if range_.redefined:
            for unit, difference in _open_difference(range_, draft).items():
                taken_in[unit] += difference
    # Amounts are whole, or have the digits of the measure's column.
    kinds = {unit: logic.merger.measures.get(unit, "bigint") for unit in columns}
    amount_types = {unit: pa.decimal128(38, types.scale_of(kind)) for unit, kind in kinds.items()}
    gap = logic.output.window.grows_by
    low, high = pc.min(changes[START]).as_py(), pc.max(changes[END]).as_py()
    counts = {
        **{kind: pc.sum(pc.equal(changes[CHANGE], kind)).as_py() or 0 for kind in (NEW, CHANGED, WITHDRAWN)},
        "windows": changes.group_by([START, END]).aggregate([]).num_rows,
        "keys": changes.group_by(list(logic.layout.keys)).aggregate([]).num_rows
        if logic.layout.keys
        else min(changes.num_rows, 1),
        "computed": windows,
        "files": len(read),
        "bytes": sum(file.size for file in read),
        "rows": sum(file.rows for file in read),
    }
    shown = json_of(logic.layout)
    return RebuildRecord(
        logic.name,
        range_.since,
        range_.until,
        range_.through,
        range_.watermark,
        (range_.since if low is None else low) - gap,
        range_.since if high is None else high,
        definition,
        {unit: json_value(amount, amount_types[unit]) for unit, amount in taken_in.items()},
        counts,
        {name: (shown(name, sums[BEFORE, name]), shown(name, sums[AFTER, name])) for name in additive},
        _largest(logic, changes, additive[0] if additive else EVENTS),
        int(time.time() * 1_000_000),
    )


def _largest(logic: OutputLogic, changes: pa.Table, column: str) -> tuple[dict[str, Any], ...]:
    """The rows that change most: by the first sum or count, else by the events they rest on."""
    after, before = (
        pc.fill_null(field_of(changes, side, column).cast(pa.float64()), 0.0) for side in (AFTER, BEFORE)
    )
    moved, order = pc.abs(pc.subtract(after, before)), [("moved", "descending"), (START, "ascending")]
    rows = pc.select_k_unstable(pa.table({"moved": moved, START: changes[START]}), LARGEST, order)
    largest, shown = [], json_of(logic.layout)
    for row, distance in zip(changes.take(rows).to_pylist(), moved.take(rows).to_pylist(), strict=True):
        key = {name: shown(name, row[name]) for name in logic.layout.keys}
        sides = {
            word: {name: shown(name, (row[side] or {}).get(name)) for name in logic.layout.values}
            for word, side in (("before", BEFORE), ("after", AFTER))
        }
        window = {"window_start": iso(row[START]), "window_end": iso(row[END])}
        largest.append(
            (-distance, row[START], repr(key), {**window, "change": row[CHANGE], "key": key, **sides})
        )
    return tuple(each[3] for each in sorted(largest, key=lambda each: each[:3]))


def json_of(layout: PaneLayout) -> Callable[[str, Any], Any]:
    """Writes a value of a key or an aggregate as JSON has it."""
    kinds = {name: arrow_type(kind) for name, kind in {**layout.keys, **layout.values}.items()}

    def written(name: str, value: Any) -> Any:
        kind = kinds[name]
        if isinstance(value, Decimal) and not pa.types.is_decimal(kind):
            value = float(value) if pa.types.is_floating(kind) else int(value)
        return json_value(value, kind)

    return written


def _total(column: pa.ChunkedArray) -> Decimal | None:
    if pa.types.is_floating(column.type):
        rough = pc.sum(column).as_py()
        return None if rough is None or not math.isfinite(rough) else Decimal(repr(rough))
    exact = column if pa.types.is_decimal(column.type) else column.cast(pa.decimal128(20, 0))
    # In the widest type: no sum outgrows it, and none is rounded.
    total: Decimal | None = pc.sum(exact.cast(pa.decimal256(76, exact.type.scale))).as_py()
    return total


def _open_difference(range_: RebuiltRange, draft: Location) -> dict[str, Decimal]:
    """By how much the open windows differ under the new definition from those under the one before."""
    logic, columns = range_.logic, units(range_.logic)
    partials = logic.tables.partials
    before = [partials.location(file) for file in partials.files()]
    difference = dict.fromkeys(columns, Decimal(0))
    for sign, files in ((1, parquet_files(draft / "partials")), (-1, before)):
        for file in files:
            rows = dataset([file], logic.merger.schema).to_table(columns=list(columns.values()))
            for unit, column in columns.items():
                difference[unit] += sign * (_total(rows.column(column)) or Decimal(0))
    return difference
