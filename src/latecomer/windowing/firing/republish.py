"""Publishes a rebuild, which was computed before, in a batch of its own: panes, then open states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.timeline.keeper import Section
from latecomer.model.durations import to_micros
from latecomer.model.panes import Op
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.store.data_files import DataFile, kind_of
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, copy, new_parquet, open_parquet, read_table, write_table
from latecomer.store.layout import TIMESTAMP
from latecomer.store.rebuilds import Rebuild, Record
from latecomer.store.sql import moment_literal
from latecomer.windowing.firing.clocks import settled_by
from latecomer.windowing.firing.output import OutputLogic
from latecomer.windowing.firing.panes import constant
from latecomer.windowing.firing.private_columns import PaneLane
from latecomer.windowing.merge import with_columns

REBUILT = "rebuilt"


def changed_since(logic: OutputLogic, record: Record) -> bool:
    """Whether the store got events or panes for the rebuilt windows since the rebuild was computed."""
    later = f"batch > {record.through}"
    low, high = moment_literal(record.low), moment_literal(record.high)
    panes = logic.tables.panes
    # Few files of the log hold such batches; statistics rule out most of the others.
    came = f"select 1 from t where {later} and event_time >= {low} and event_time < {high} limit 1"
    published = (
        f"select 1 from t where {later} and window_start < {high} and window_end > {low} "
        f"and window_end <= {moment_literal(record.watermark)} limit 1"
    )
    return bool(logic.store.events.query_rows(came) or panes.query_rows(published))


def publish_rebuild(
    logic: OutputLogic, number: int, rebuild: Rebuild, section: Section
) -> Sequence[DataFile]:
    """Make a rebuild's panes visible in one step, then its dead letters, then replace the open states that are now in
    the panes. Gives the files of panes."""
    panes, partials, letters = logic.tables.panes, logic.tables.partials, logic.tables.dead_letters
    published: Sequence[DataFile] = ()
    if not panes.holds(number):
        folder = panes.new_folder(number, REBUILT)
        files = [_filled(file, folder, logic, number, section) for file in rebuild.panes]
        failpoint(f"{logic.name}.panes.written", number)
        published = panes.commit(number, files)
        failpoint(f"{logic.name}.panes.committed", number)
    if rebuild.failed and not letters.holds(number):
        folder = letters.new_folder(number, REBUILT)
        letters.commit(number, [_filed(file, folder / file.name, number) for file in rebuild.failed])
        failpoint(f"{logic.name}.dead_letters.committed", number)
    if not partials.holds(number):
        if rebuild.record.definition is not None:
            # Copies: a rebuild that was killed half-way starts over from its own files.
            folder = partials.new_folder(number)
            added = [copy(file, folder / file.name) for file in rebuild.partials]
            removed = partials.files()
        else:
            added, removed = _without_rebuilt(logic, number)
        if added or removed:
            partials.commit(number, added, removed)
            failpoint(f"{logic.name}.partials.committed", number)
    logic.remember()
    return published


def _filled(file: Location, folder: Location, logic: OutputLogic, number: int, section: Section) -> Location:
    """Copy staged panes, with their batch, moment and watermark."""
    target = folder / file.name
    schema = logic.merger.schema
    with open_parquet(file) as staged, new_parquet(target, schema) as writer:
        for part in staged.iter_batches():
            writer.write_table(_as_panes(pa.table(part), logic, number, section).cast(schema))
    return target


def _filed(file: Location, target: Location, number: int) -> Location:
    """Copy staged dead letters, with the batch of the rebuild."""
    rows = read_table(file)
    return write_table(with_columns(rows, {"batch": constant(number, rows.num_rows)}), target)


def _as_panes(rows: pa.Table, logic: OutputLogic, number: int, section: Section) -> pa.Table:
    clock, mark = (None if each == BEGIN_OF_TIME else each for each in (section.clock, section.fires_at))
    fired = {"batch": number, "fired_at": clock, "watermark": mark}
    filled: dict[str, Any] = {name: constant(value, rows.num_rows) for name, value in fired.items()}
    final = settled_by(logic.output, section.fires_at)
    closed = pc.less_equal(rows["window_end"].cast(TIMESTAMP).cast(pa.int64()), final)
    filled["is_last"] = pc.and_(closed, pc.equal(rows["op"], Op.INSERT.value))
    return pa.table({name: filled.get(name, rows[name]) for name in logic.merger.schema.names})


def _without_rebuilt(logic: OutputLogic, number: int) -> tuple[list[Location], list[DataFile]]:
    """Waiting states of rebuilt windows are in their panes now. Gives new files without them, and the files that these
    replace."""
    partials, panes = logic.tables.partials, logic.tables.panes
    waiting = [file for file in partials.files() if kind_of(file) in (PaneLane.WAITING, PaneLane.TO_RETRACT)]
    rebuilt = [file for file in panes.files() if file.minimum["batch"] == number] if waiting else []
    if not rebuilt:
        return [], []
    taken = _Taken(logic, [read_table(panes.location(file)) for file in rebuilt])
    added, removed = [], []
    for file in waiting:
        rows = read_table(partials.location(file))
        rest = rows.filter(pa.array([not taken.holds(row) for row in taken.places(rows)], pa.bool_()))
        if rest.num_rows == rows.num_rows:
            continue
        removed.append(file)
        if rest.num_rows:
            folder = partials.new_folder(number, kind_of(file))
            added.append(write_table(rest, folder / "left.parquet"))
    return added, removed


class _Taken:
    """The windows and keys that a rebuild has published."""

    def __init__(self, logic: OutputLogic, panes: Sequence[pa.Table]) -> None:
        self.session = logic.output.window.merges
        self.keys = list(logic.layout.keys)
        self.windows: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for rows in panes:
            for start, end, key in self.places(rows.filter(pc.equal(rows["op"], Op.INSERT.value))):
                self.windows.setdefault(key, []).append((start, end))

    def places(self, rows: pa.Table) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        for row in rows.select(["window_start", "window_end", *self.keys]).to_pylist():
            start, end = to_micros(row["window_start"]), to_micros(row["window_end"])
            yield start, end, tuple(map(repr, (row[key] for key in self.keys)))

    def holds(self, place: tuple[int, int, tuple[Any, ...]]) -> bool:
        start, end, key = place
        published = self.windows.get(key, ())
        if self.session:
            return any(first < end and start < last for first, last in published)
        return (start, end) in published
