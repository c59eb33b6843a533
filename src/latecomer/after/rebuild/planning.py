"""A plan: what computing a range of windows anew would change. It has the panes to publish, and figures."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.rebuild.changes import CHANGED, NEW, WITHDRAWN, field_of, parts, write_panes
from latecomer.after.rebuild.changes import changes as differences
from latecomer.after.rebuild.private_columns import AFTER, BEFORE, CHANGE
from latecomer.after.rebuild.rebuilt import Range, computed, events_of, open_states, published_panes, units
from latecomer.log.events import EventLog
from latecomer.log.progress import Watch, Watched
from latecomer.log.timeline.keeper import TimelineKeeper
from latecomer.model import types
from latecomer.model.durations import iso
from latecomer.model.ledger import exact_amounts
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.model.written_values import json_value
from latecomer.store.coverage import covered_since, require_windows
from latecomer.store.data_files import DataFile
from latecomer.store.files import Location, dataset, parquet_files, remove_all, write_table
from latecomer.store.layout import arrow_type
from latecomer.store.private_columns import EVENTS
from latecomer.store.rebuilds import FAILED, Rebuild, Rebuilds, Record
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
    log: EventLog | None = None,
    rebuilds: Rebuilds | None = None,
) -> Rebuild:
    """A plan for the windows of an output that start in [since, until), by the log up to a batch.

    `definition` is the new definition of the output, where it changes; the logic has it already. The plan is kept in
    `rebuilds`: those of the store, by default.
    """
    store = logic.store
    reached = TimelineKeeper(store.watermarks, store.pipeline.watermark).reached(through)
    watermark = BEGIN_OF_TIME if reached is None else reached.watermark
    range_ = Range(
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
        changes = draft / "changes"
        windows = _compute(range_, log or EventLog(logic.runner, store), read, published, progress, draft)
        write_panes(range_, changes, draft / "panes")
        record = _recorded(range_, changes, read, definition, draft, windows)
    progress.report(1.0)
    remove_all(changes)
    return rebuilds.keep(draft, replace(record, seconds=round(time.monotonic() - began, 3)))


def _compute(
    range_: Range,
    log: EventLog,
    read: Sequence[DataFile],
    published: Sequence[DataFile],
    progress: Watched,
    draft: Location,
) -> int:
    """Write what changes, and the windows still open, where the definition of the output changes. Returns how many
    windows were computed."""
    logic = range_.logic
    merger, store = logic.merger, logic.store
    events = events_of(range_, log, read)
    events.on_read = progress.read
    with by_spark(events, [logic.output], store.layout, logic.runner, store.root) as seen:
        truth = computed(range_, seen, draft / FAILED)
    panes = published_panes(range_, published)
    write_table(differences(range_, truth, panes, merger), draft / "changes" / "changes.parquet")
    if range_.redefined:
        write_table(open_states(range_, truth, panes, merger), draft / "partials" / "open.parquet")
    return int(truth.group_by([START, END]).aggregate([]).num_rows)


def require_range(store: Store, output: str, since: int) -> None:
    """Refuse windows whose events retention has removed; the error says from when on the log is whole."""
    window = store.pipeline.outputs[output].window
    first = None if since == BEGIN_OF_TIME else since
    require_windows(store, f"a rebuild of output {output}", first, window)


def _recorded(
    range_: Range,
    changes: Location,
    read: Sequence[DataFile],
    definition: Mapping[str, Any] | None,
    draft: Location,
    windows: int,
) -> Record:
    """A plan in figures."""
    logic, columns = range_.logic, units(range_.logic)
    figures = _Figures(logic)
    for part in parts(changes):
        figures.add(part)
    files = {
        "files": len(read),
        "bytes": sum(file.size for file in read),
        "rows": sum(file.rows for file in read),
    }
    with exact_amounts():
        taken_in = {
            unit: (figures.sums[AFTER, column] or Decimal(0)) - (figures.sums[BEFORE, column] or Decimal(0))
            for unit, column in columns.items()
        }
        if range_.redefined:
            for unit, difference in _open_difference(range_, draft).items():
                taken_in[unit] += difference
    # Amounts are whole, or have the digits of the measure's column.
    kinds = {unit: logic.merger.measures.get(unit, "bigint") for unit in columns}
    amount_types = {unit: pa.decimal128(38, types.scale_of(kind)) for unit, kind in kinds.items()}
    gap = logic.output.window.grows_by
    low = min((start for start, _ in figures.windows), default=range_.since)
    high = max((end for _, end in figures.windows), default=range_.since)
    return Record(
        logic.name,
        range_.since,
        range_.until,
        range_.through,
        range_.watermark,
        low - gap,
        high,
        definition,
        {unit: json_value(amount, amount_types[unit]) for unit, amount in taken_in.items()},
        {**figures.counts, "computed": windows, **files},
        {
            name: (
                figures.json(name, figures.sums[BEFORE, name]),
                figures.json(name, figures.sums[AFTER, name]),
            )
            for name in figures.additive
        },
        tuple(shown for *_, shown in figures.most),
        int(time.time() * 1_000_000),
    )


class _Figures:
    """The changes in figures, added up part by part."""

    def __init__(self, logic: OutputLogic) -> None:
        self.logic = logic
        rules = logic.output.aggregates
        self.additive = [name for name, each in rules.items() if each.function in ("sum", "count")]
        summed = (*self.additive, *units(logic).values())
        self.sums: dict[tuple[str, str], Decimal | None] = {
            (side, name): None for side in (BEFORE, AFTER) for name in summed
        }
        published = {**logic.layout.keys, **logic.layout.values}
        self.kinds_of = {name: arrow_type(kind) for name, kind in published.items()}
        self.kinds = dict.fromkeys((NEW, CHANGED, WITHDRAWN), 0)
        self.windows: set[tuple[int, int]] = set()
        self.keys: set[tuple[Any, ...]] = set()
        self.most: list[tuple[float, int, str, dict[str, Any]]] = []

    @property
    def counts(self) -> dict[str, int]:
        return {**self.kinds, "windows": len(self.windows), "keys": len(self.keys)}

    def add(self, part: pa.Table) -> None:
        for kind in self.kinds:
            self.kinds[kind] += pc.sum(pc.equal(part[CHANGE], kind)).as_py() or 0
        windows = part.group_by([START, END]).aggregate([])
        self.windows.update(zip(windows[START].to_pylist(), windows[END].to_pylist(), strict=True))
        keys = [part[key].to_pylist() for key in self.logic.layout.keys]
        self.keys.update(zip(*keys, strict=True) if keys else [()] * bool(part.num_rows))
        for (side, name), before in self.sums.items():
            more = _total(field_of(part, side, name))
            with exact_amounts():
                self.sums[side, name] = before if more is None else (before or Decimal(0)) + more
        self._add_largest(part)

    def _add_largest(self, part: pa.Table) -> None:
        """Keep the rows that change most: by the first sum or count, else by the events they rest on."""
        column = self.additive[0] if self.additive else EVENTS
        after, before = (
            pc.fill_null(field_of(part, side, column).cast(pa.float64()), 0.0) for side in (AFTER, BEFORE)
        )
        moved = pc.abs(pc.subtract(after, before))
        rows = pc.select_k_unstable(
            pa.table({"moved": moved, START: part[START]}),
            LARGEST,
            [("moved", "descending"), (START, "ascending")],
        )
        for row, distance in zip(part.take(rows).to_pylist(), moved.take(rows).to_pylist(), strict=True):
            key = {name: self.json(name, row[name]) for name in self.logic.layout.keys}
            self.most.append((-distance, row[START], repr(key), self._shown(row, key)))
        self.most = sorted(self.most, key=lambda each: each[:3])[:LARGEST]

    def _shown(self, row: Mapping[str, Any], key: Mapping[str, Any]) -> dict[str, Any]:
        sides = {
            word: {name: self.json(name, (row[side] or {}).get(name)) for name in self.logic.layout.values}
            for word, side in (("before", BEFORE), ("after", AFTER))
        }
        window = {"window_start": iso(row[START]), "window_end": iso(row[END])}
        return {**window, "change": row[CHANGE], "key": dict(key), **sides}

    def json(self, name: str, value: Any) -> Any:
        """A value of a key or an aggregate as JSON has it."""
        kind = self.kinds_of[name]
        if isinstance(value, Decimal) and not pa.types.is_decimal(kind):
            value = float(value) if pa.types.is_floating(kind) else int(value)
        return json_value(value, kind)


def _total(column: pa.ChunkedArray) -> Decimal | None:
    if pa.types.is_floating(column.type):
        rough = pc.sum(column).as_py()
        return None if rough is None or not math.isfinite(rough) else Decimal(repr(rough))
    exact = column if pa.types.is_decimal(column.type) else column.cast(pa.decimal128(20, 0))
    # In the widest type: no sum outgrows it, and none is rounded.
    total: Decimal | None = pc.sum(exact.cast(pa.decimal256(76, exact.type.scale))).as_py()
    return total


def _open_difference(range_: Range, draft: Location) -> dict[str, Decimal]:
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
