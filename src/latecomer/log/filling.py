"""Fills columns that a source declares later, for past events, from the unknown fields that were kept. Likewise fields
that the objects of a list or a map get later: such a list was kept whole.

The files of the log that hold such a field are written again with the column filled, and replace the old files. The
columns are pinned only after that, so the next run continues after an interruption. The kept fields stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.all_columns import SOURCE
from latecomer.config.for_tasks import portable
from latecomer.config.names import PRIVATE
from latecomer.errors import BUG, StoreError
from latecomer.log.logged_events import LogSplit
from latecomer.model.array_types import Flags
from latecomer.model.arrays import flat
from latecomer.model.types import new_fields
from latecomer.model.written_numbers import Numbers
from latecomer.source.decode.csv_rows import CsvLines
from latecomer.source.decode.json_rows import JsonRecords
from latecomer.source.decode.private_columns import CORRUPT
from latecomer.source.decode.text_lines import Lines
from latecomer.spark.base import Runner, Shared, in_turn_together
from latecomer.store.delta.data_files import DataFile, batch_of, batches_of, is_merged
from latecomer.store.delta.table import Table
from latecomer.store.files import Location, footer, new_parquet, new_token, remove_all
from latecomer.store.layout import EventLayout
from latecomer.store.pins import read_pins
from latecomer.store.private_columns import LANE
from latecomer.store.store import Store

LOG = logging.getLogger(__name__)
GROUP_BYTES = 256 << 20
"""How much of the log is written again in one step."""


@dataclass(frozen=True)
class FilledColumns:
    """New columns, and how many past events got values for them."""

    columns: tuple[str, ...] = ()
    events: int = 0
    """How many have a value for one of the columns now."""
    unread: int = 0
    """How many have a kept value that is not of its column's type: the column is null."""


NOTHING_FILLED = FilledColumns()


def new_columns(store: Store) -> dict[str, dict[str, str]]:
    """The columns that each source has got since the last run, and the lists and maps whose objects have got fields."""
    by_source = {}
    for name, before in _columns_before(store).items():
        now = store.columns.read_from(name)
        new = {
            column: kind
            for column, kind in now.items()
            if column not in before or new_fields(column, before[column], kind)
        }
        if before and new:
            by_source[name] = new
    return by_source


def _columns_before(store: Store) -> dict[str, Mapping[str, str]]:
    """The columns of each source at the last run."""
    pinned = read_pins(store.root)
    if pinned is None:
        return {}
    of_sources = pinned.get("sources", {})
    return {name: of_sources.get(name, {}) if name else pinned["columns"] for name in store.pipeline.views}


def fill(runner: Runner, store: Store) -> FilledColumns:
    """Fill the new columns of past events, as far as they were kept."""
    new = new_columns(store)
    if not new or store.replay_of is not None:
        return NOTHING_FILLED
    before = _columns_before(store)
    names = sorted(
        {
            field
            for name, columns in new.items()
            for column, kind in columns.items()
            for field in (
                new_fields(column, before[name][column], kind) if column in before[name] else [column]
            )
        }
    )
    plan = Shared(_plan(store, new, before))
    events = unread = 0
    for table in (store.events, store.duplicates):
        if store.layout.unknown_fields not in table.columns:
            continue
        table.widen()  # which may write its files again
        files = [file for file in table.files() if _mentions(store, table, file, new)]
        if files:
            LOG.info("filling %s in %d files of %s", ", ".join(names), len(files), table.root.name)
        for group in _groups(files):
            rewritten = _rewritten(runner, store, table, group, plan)
            if table is store.events:
                events, unread = events + rewritten.filled, unread + rewritten.unread
    if unread:
        LOG.warning(
            "%d past events have a kept value that is not of the type of its column (%s): it is null there, and is "
            "still kept as text in %s",
            unread,
            ", ".join(names),
            store.layout.unknown_fields,
        )
    return FilledColumns(tuple(names), events, unread)


def _plan(
    store: Store, new: Mapping[str, Mapping[str, str]], before: Mapping[str, Mapping[str, str]]
) -> _Filling:
    layout, sources = store.layout, []
    for name, columns in new.items():
        view = store.pipeline.views[name]
        named = {view.source_name(column): kind for column, kind in columns.items()}
        had = frozenset(layout.view[column] for column in columns if column in before[name])
        is_csv = view.source.files is not None and view.format == "csv"
        sources.append(_Source(name, columns, named, is_csv, view.source.numbers, had))
    return _Filling(replace(layout, pipeline=portable(layout.pipeline)), sources)


def _mentions(store: Store, table: Table, file: DataFile, new: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a file may hold a kept field that is a column now. With a backslash, a name may be escaped."""
    views = store.pipeline.views
    paths = [views[name].source_name(column) for name, each in new.items() for column in each]
    names = {part for path in paths for part in (path, path.partition(".")[0])}
    column = store.layout.unknown_fields
    with table.explained():
        if column not in footer(table.location(file)).schema.to_arrow_schema().names:
            return False
        kept = table.dataset([file], pa.schema([(column, pa.string())])).to_table()[column].drop_null()
    return any(
        pc.any(pc.match_substring(kept, text)).as_py() for text in (*(f'"{name}"' for name in names), "\\")
    )


def _groups(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Files to write again together: of one lane, in the order of their batches. Merged ones stay apart: upkeep has
    divided them by time."""
    lanes: dict[str, list[DataFile]] = {}
    for file in sorted(files, key=batch_of):
        lanes.setdefault(file.path if is_merged(file) else _lane(file), []).append(file)
    for lane in lanes.values():
        yield from in_turn_together(lane, lambda file: file.size, GROUP_BYTES)


def _lane(file: DataFile) -> str:
    """The folder of a file's lane; empty in a table that has no such folders."""
    folder = file.path.split("/")[-2]
    return folder if folder.startswith(f"{LANE}=") else ""


@dataclass(frozen=True)
class _Source:
    """The columns of a source that are new, and where they are stored."""

    name: str
    columns: Mapping[str, str]
    """Column → type."""
    named: Mapping[str, str]
    """The same under the names that the source has for them."""
    is_csv: bool
    numbers: Numbers
    had: frozenset[str]
    """Columns that existed before: lists and maps, kept whole where their objects have a new field."""


_LAST = f"{PRIVATE}last"


@dataclass(frozen=True)
class _Filling:
    """How past events are filled."""

    layout: EventLayout
    sources: Sequence[_Source]

    def filled(self, events: pa.Table) -> tuple[pa.Table, Flags, Flags]:
        """Events with the columns filled; which of them got a value; which of them have a value that was not read."""
        got, lost = np.zeros(events.num_rows, bool), np.zeros(events.num_rows, bool)
        for source in self.sources:
            events, filled, missed = self._filled_of(events, source)
            got, lost = got | filled, lost | missed
        return events, got, lost

    def _filled_of(self, events: pa.Table, source: _Source) -> tuple[pa.Table, Flags, Flags]:
        layout = self.layout
        kept = flat(events.column(layout.unknown_fields))
        if source.name:
            ours = pc.equal(flat(events.column(layout.view[SOURCE])), source.name)
            kept = pc.if_else(pc.fill_null(ours, False), kept, pa.scalar(None, pa.string()))
        values, missed = _decoded(kept, source)
        filled = np.zeros(events.num_rows, bool)
        for column, (name, _) in zip(source.columns, source.named.items(), strict=True):
            stored = layout.view[column]
            place = events.schema.get_field_index(stored)
            current = flat(events.column(place))
            value = values.column(name).combine_chunks().cast(current.type)
            if stored in source.had:
                value = pc.if_else(pa.array(missed), pa.scalar(None, current.type), value)
                filled |= np.asarray(value.is_valid())
                whole = _first_of(value, current)
            else:
                whole = _first_of(current, value)
                filled |= np.asarray(whole.is_valid())
            events = events.set_column(place, events.schema.field(place), whole)
        return events, filled, missed


def _first_of(first: pa.Array, second: pa.Array) -> pa.Array:
    """The first where it is not null, else the second. Works for lists and maps, which `coalesce` does not take."""
    valid = np.asarray(first.is_valid())
    if valid.all():
        return first
    both = pa.concat_arrays([first, second])
    return both.take(pa.array(np.where(valid, np.arange(len(first)), np.arange(len(first)) + len(first))))


def _decoded(kept: pa.Array, source: _Source) -> tuple[pa.Table, Flags]:
    """The columns of kept fields, read by the rules of the source's own text; and which rows have a value that breaks
    these rules."""
    records = [(each or "{}").encode() for each in kept.to_pylist()]
    if not source.is_csv:
        rows = JsonRecords(numbers=source.numbers).decode(records, source.named)
        return rows, np.asarray(flat(rows.column(CORRUPT)).is_valid())
    texts = JsonRecords().decode(records, dict.fromkeys(source.named, "string")).select(list(source.named))
    written = [_csv_line(list(row.values())) for row in texts.to_pylist()]
    lines = CsvLines([*source.named, _LAST], source.named, ",", numbers=source.numbers)
    found = lines.read(Lines.of_records(written))
    missed = np.zeros(len(records), bool)
    for name in source.named:
        missed |= np.asarray(texts.column(name).is_valid()) & np.asarray(found.column(name).is_null())
    return found, missed


def _csv_line(texts: Sequence[str | None]) -> bytes:
    """A line of CSV, with an extra field: a blank line would be skipped."""
    fields = ("" if each is None else '"' + each.replace('"', '""') + '"' for each in texts)
    return ",".join([*fields, _LAST]).encode()


@dataclass(frozen=True)
class _Rewritten:
    """A file that replaces others."""

    file: Location
    rows: int
    filled: int
    unread: int


def _rewrite(plan: Shared[_Filling], task: tuple[LogSplit, Location]) -> _Rewritten:
    """Write some files of the log again, as one: a task."""
    split, target = task
    rows = filled = unread = 0
    with new_parquet(target, plan.value.layout.schema) as writer:
        for events in split.tables():
            whole, got, lost = plan.value.filled(events)
            writer.write_table(whole)
            rows, filled, unread = rows + whole.num_rows, filled + int(got.sum()), unread + int(lost.sum())
    return _Rewritten(target, rows, filled, unread)


def _rewritten(
    runner: Runner, store: Store, table: Table, files: Sequence[DataFile], plan: Shared[_Filling]
) -> _Rewritten:
    folder = table.merged_folder(min(batches_of(file)[0] for file in files), batch_of(files[-1]), new_token())
    expected = sum(file.rows for file in files)
    split = LogSplit([table.location(file) for file in files], expected, store.layout.schema)
    kernel = partial(_rewrite, plan)
    made: _Rewritten = runner.run("columns that are new", kernel, [(split, folder / "part.parquet")]).tasks[0]
    if made.rows != expected:
        remove_all(folder)
        raise StoreError(
            f"table {table.root}: {expected} rows were to be written again and {made.rows} were; nothing was "
            f"changed, and {BUG}"
        )
    table.rearrange([made.file], files)
    return made
