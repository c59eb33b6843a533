"""Rows as a table, JSON or CSV. Nothing is rounded in any of them; docs/values.md says how values are written."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow as pa

from latecomer.cli.terminal import csv_cell
from latecomer.errors.harmless import harmless
from latecomer.model.durations import shown_duration
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.markup import aligned, is_number
from latecomer.model.types import scale_of
from latecomer.model.written_values import csv_column, csv_line, json_rows, padded_text
from latecomer.model.zoned import current_zone, moment_in_words

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

    from latecomer.store.store import Store

MISSING = "-"


def scales_of(store: Store) -> dict[str, int]:
    """How many digits after the point each unit of the ledger has: a sum those of its column; what is counted is
    whole."""
    return {column: scale_of(kind) for column, kind in store.columns.items()} | {EVENTS: 0, ASSIGNMENTS: 0}


def json_table(table: pa.Table, limit: int | None = None) -> list[dict[str, Any]]:
    """Rows for a JSON document."""
    return list(json_rows(table if limit is None else table.slice(0, limit), current_zone()))


def changes_in_words(counts: Mapping[str, int]) -> str:
    """How many rows are equal, and how many differ in which way."""
    return ", ".join(f"{count:,} {change}" for change, count in counts.items() if count or change == "equal")


def print_json_rows(rows: pa.Table, out: TextIO) -> None:
    opened = "[\n"
    for row in json_rows(rows, current_zone()):
        out.write(opened + json.dumps(row, ensure_ascii=False, allow_nan=False))
        opened = ",\n"
    out.write("[]\n" if opened == "[\n" else "\n]\n")


def print_csv(rows: pa.Table, out: TextIO) -> None:
    out.write(csv_line([csv_cell(name) for name in rows.schema.names]))
    columns = (map(csv_cell, csv_column(column, current_zone())) for column in rows.columns)
    out.writelines(map(csv_line, zip(*columns, strict=True)))


# Tables


def _table_values(column: pa.ChunkedArray, digits: Sequence[int] | None) -> list[str]:
    """The cells of a column. `digits` is how many digits each decimal has at least; None: as many as its type."""
    kind = column.type
    values: list[Any]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        values = _each(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()), moment_in_words)
    elif pa.types.is_duration(kind):
        values = _each(column.cast(pa.duration("us")).cast(pa.int64()), shown_duration)
    elif pa.types.is_decimal(kind) and digits is not None:
        values = [
            None if value is None else padded_text(value, least)
            for value, least in zip(column.to_pylist(), digits, strict=True)
        ]
    else:
        values = csv_column(column, current_zone())
    return [MISSING if value is None else harmless(str(value)) for value in values]


def _each(column: pa.ChunkedArray, change: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else change(value) for value in column.to_pylist()]


def print_table(
    rows: pa.Table,
    out: TextIO | None = None,
    scales: Mapping[str, int] | None = None,
    scaled_by: str | None = "unit",
) -> None:
    """Print a table: framed on a terminal, else plain and as wide as it needs to be.

    With `scales`, decimals have no zeros at their end, for columns of mixed units. It says how many digits after the
    point they keep nevertheless: for each unit, which is in the column `scaled_by` of a row, or else for each column.
    """
    out = out or sys.stdout
    cells = [
        _table_values(rows[name], None if scales is None else _digits(rows, name, scales, scaled_by))
        for name in rows.schema.names
    ]
    names = [harmless(name) for name in rows.schema.names]
    kinds = [field.type for field in rows.schema]
    if out.isatty():
        _print_fitted(names, kinds, cells, out)
    else:
        out.writelines(line + "\n" for line in aligned(names, kinds, cells))


def _digits(rows: pa.Table, name: str, scales: Mapping[str, int], scaled_by: str | None) -> list[int]:
    """How many digits each value of a column has at least."""
    units = rows[scaled_by].to_pylist() if scaled_by in rows.schema.names else [name] * rows.num_rows
    return [scales.get(unit, 0) for unit in units]


def _print_fitted(
    names: Sequence[str], kinds: Sequence[pa.DataType], cells: Sequence[Sequence[str]], out: TextIO
) -> None:
    """Print a table that is no wider than the terminal. Names of columns get narrower first, then texts, then moments,
    with the day above the time. Numbers are never cut: if that is not enough, each column of a row has a line."""
    from rich.cells import cell_len
    from rich.console import Console

    console = Console(file=out)
    heads = [max(map(cell_len, _words(name))) for name in names]
    values = [max(map(cell_len, column), default=0) for column in cells]
    folds = [pa.types.is_string(kind) or pa.types.is_binary(kind) for kind in kinds]
    texts = [min(value, _NARROW) if fold else value for value, fold in zip(values, folds, strict=True)]
    parted = [
        [_day_above_time(cell) for cell in column] if pa.types.is_timestamp(kind) else column
        for kind, column in zip(kinds, cells, strict=True)
    ]
    moments = [
        max((cell_len(line) for cell in column for line in cell.split("\n")), default=0)
        if pa.types.is_timestamp(kind)
        else text
        for kind, column, text in zip(kinds, parted, texts, strict=True)
    ]
    room = console.width - _GAP * (len(names) - 1)
    widths = [max(cell_len(name), value) for name, value in zip(names, values, strict=True)]
    for least in (values, texts, moments):
        widths = _fitted(widths, list(map(max, heads, least)), room)
    if sum(widths) > room:
        _print_row_by_row(names, cells, console)
        return
    shown = [
        part if width < value else column
        for column, part, width, value in zip(cells, parted, widths, values, strict=True)
    ]
    _print_framed(names, kinds, shown, widths, console)


def _print_framed(
    names: Sequence[str],
    kinds: Sequence[pa.DataType],
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
    console: Console,
) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    for name, kind, width in zip(names, kinds, widths, strict=True):
        side: JustifyMethod = "right" if is_number(kind) else "left"
        table.add_column(Text(_head(name, width)), justify=side, width=width, overflow="fold")
    for line in zip(*cells, strict=True):
        table.add_row(*(Text(cell) for cell in line))
    console.print(table)


def _print_row_by_row(names: Sequence[str], cells: Sequence[Sequence[str]], console: Console) -> None:
    from rich.rule import Rule
    from rich.table import Table
    from rich.text import Text

    for nth, line in enumerate(zip(*cells, strict=True), start=1):
        console.print(Rule(Text(f"row {nth}"), align="left", style="default"))
        row = Table.grid(padding=(0, 2))
        row.add_column(style="bold", overflow="fold", max_width=console.width // 2)
        row.add_column(overflow="fold")
        for name, cell in zip(names, line, strict=True):
            row.add_row(Text(name), Text(cell))
        console.print(row)


def _day_above_time(moment: str) -> str:
    """A moment in two lines.

    >>> _day_above_time("2026-04-25T12:00:00Z"), _day_above_time("end of time")
    ('2026-04-25\\nT12:00:00Z', 'end of time')
    """
    return moment.replace("T", "\nT", 1) if moment[:1].isdigit() else moment


_GAP = 3
_NARROW = 12
"""The least width of a text."""


def _words(name: str) -> list[str]:
    """The name of a column, cut where a line may end.

    >>> _words("late accepted"), _words("source_partition")
    (['late ', 'accepted'], ['source_', 'partition'])
    """
    return re.findall("[^ _]*[ _]?", name)[:-1] or [name]


def _head(name: str, width: int) -> str:
    """The name of a column in lines of at most this width, unless one of its words is longer."""
    from rich.cells import cell_len

    lines = [""]
    for word in _words(name):
        if lines[-1] and cell_len((lines[-1] + word).rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip(" ") for line in lines)


def _fitted(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit into the room, if columns can get so narrow: the widest gives way first.

    >>> _fitted([20, 9, 40], [20, 9, 12], 50)
    [20, 9, 21]
    """
    fitted = list(widths)
    while sum(fitted) > room:
        spare = [
            (width, index)
            for index, (width, at_least) in enumerate(zip(fitted, least, strict=True))
            if width > at_least
        ]
        if not spare:
            break
        fitted[max(spare)[1]] -= 1
    return fitted
