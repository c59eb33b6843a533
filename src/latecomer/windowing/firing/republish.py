"""Publishes a rebuild, which was computed before, in a batch of its own: panes, then open states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.errors import StoreMismatch
from latecomer.log.timeline.keeper import Section, TimelineKeeper
from latecomer.model.durations import iso, to_micros
from latecomer.model.panes import Op
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT
from latecomer.store.delta.data_files import DataFile, kind_of
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, copy, new_parquet, open_parquet, read_table, write_table
from latecomer.store.layout import TIMESTAMP
from latecomer.store.rebuilds import Rebuild, RebuildRecord, Rebuilds
from latecomer.store.sql import moment_literal
from latecomer.store.store import Store
from latecomer.windowing.firing.clocks import settled_by
from latecomer.windowing.firing.output import OutputLogic
from latecomer.windowing.firing.panes import constant
from latecomer.windowing.merge import with_columns
from latecomer.windowing.private_columns import PaneLane

REBUILT = "rebuilt"


def changed_since(logic: OutputLogic, record: RebuildRecord) -> bool:
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


# After a rebuild


def require_brought_over(store: Store) -> None:
    """Refuse a lateness that reaches windows of an earlier definition."""
    last = store.ledger.last_batch()
    for name in store.pipeline.outputs:
        if name == store.redefining:
            continue
        published = Rebuilds(store.root, name).published(last)
        given = [each for each in published if each.record.definition is not None]
        if given:
            _require(store, name, given[-1], published)


def _require(store: Store, name: str, given: Rebuild, published: list[Rebuild]) -> None:
    output = store.pipeline.outputs[name]
    reached = TimelineKeeper(store.watermarks, store.pipeline.watermark).reached(store.ledger.last_batch())
    watermark = BEGIN_OF_TIME if reached is None else reached.watermark
    if END_OF_TIME in (watermark, given.record.watermark):
        return  # nothing is accepted any more, or the rebuild has taken in all windows
    then = [under for since, under in store.policies(name) if since <= (given.batch or 0)][-1]
    opened, brought_over = watermark - output.settles_after, given.record.watermark - then.settles_after
    first = max(opened - output.window.reach, FIRST_MOMENT)
    since = [each.record.since for each in published if (each.batch or 0) >= (given.batch or 0)]
    if opened >= brought_over or min(since) <= first:
        return
    raise StoreMismatch(
        f"output {name} would add late events to windows that were published under another definition, before batch "
        f"{given.batch}: its lateness reaches back to {iso(opened)} now; with the lateness as it was, run latecomer "
        f"rebuild apply FILE {name} --from {iso(first)}, then make it longer"
    )
