"""HTML for notebooks: escaped text, tables, and a style for light and dark pages. No scripts.

A notebook may be dark on a light desktop. So text inherits the colour of the page, and lines are a pale form of it.
Nothing depends on the setting of the desktop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape as html_escape

import pyarrow as pa

from latecomer.errors import shortened
from latecomer.errors.harmless import harmless
from latecomer.model.written_values import csv_column

MOST_ROWS = 40
"""The most rows of a table that are shown."""
LONGEST = 300
"""The most characters of a value that are shown."""
STYLE = """
.latecomer { font:14px/1.5 system-ui,sans-serif; color:inherit; max-width:72rem }
.latecomer h4 { font-size:1.05rem; margin:.4rem 0 .1rem; overflow-wrap:anywhere }
.latecomer p { margin:.15rem 0; overflow-wrap:anywhere }
.latecomer .pale { opacity:.72 }
.latecomer .warning { border-left:4px solid #d29922; padding:.2rem .7rem; margin:.3rem 0 }
.latecomer .scroll { overflow-x:auto; margin:.4rem 0 }
.latecomer table { border-collapse:collapse; font-variant-numeric:tabular-nums; font-size:.9rem;
  background:transparent; color:inherit; margin:0 }
.latecomer th,.latecomer td { padding:.2rem .7rem; text-align:left; white-space:nowrap; background:transparent;
  color:inherit; border:0; border-bottom:1px solid rgba(128,128,128,.35) }
.latecomer th { font-weight:600; vertical-align:bottom }
.latecomer td.number,.latecomer th.number { text-align:right }
.latecomer td.words { white-space:normal; min-width:16rem }
.latecomer .null { opacity:.5; font-style:italic }
.latecomer .picture { background:#ffffff; color:#111827; border-radius:6px; overflow-x:auto; margin:.4rem 0;
  max-width:920px }
.latecomer .picture svg { display:block; max-width:100%; height:auto }
"""


def escape(text: str) -> str:
    """User text as HTML. Control characters, and those that change the direction of text, are written as escapes.

    >>> escape('<b onclick="x">') == "&lt;b onclick=&quot;x&quot;&gt;"
    True
    """
    return html_escape(harmless(text, lines=True))


def fragment(parts: Iterable[str]) -> str:
    """A part of a page, with its style, from parts that are HTML already."""
    return "\n".join([f"<style>{STYLE}</style>", '<div class="latecomer">', *parts, "</div>"])


def heading(title: str, below: str = "") -> Iterator[str]:
    """A title, and a line below it."""
    yield f"<h4>{escape(title)}</h4>"
    if below:
        yield f'<p class="pale">{escape(below)}</p>'


def warning(text: str) -> str:
    """A paragraph with a warning."""
    return f'<p class="warning">{escape(text)}</p>'


def arrow_table(rows: pa.Table, zone: str, most: int = MOST_ROWS) -> Iterator[str]:
    """The first rows of a table, exact: every digit of a decimal and every microsecond, in a time zone."""
    some = rows.slice(0, most)
    columns = [csv_column(column, zone) for column in some.columns]
    numbers = [nth for nth, field in enumerate(rows.schema) if is_number(field.type)]
    yield from table(rows.schema.names, list(zip(*columns, strict=True)), numbers)
    if rows.num_rows > most:
        yield f'<p class="pale">{most:,} of {rows.num_rows:,} rows are shown.</p>'


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    numbers: Sequence[int] = (),
    words: Sequence[int] = (),
) -> Iterator[str]:
    """A table of texts. Columns of `numbers` are aligned right; cells of `words` may have several lines."""
    kinds = [
        ' class="number"' if nth in numbers else ' class="words"' if nth in words else ""
        for nth in range(len(heads))
    ]
    yield '<div class="scroll"><table><thead><tr>'
    yield (
        "".join(f"<th{kind}>{escape(head)}</th>" for head, kind in zip(heads, kinds, strict=True))
        + "</tr></thead><tbody>"
    )
    for row in rows:
        cells = (f"<td{kind}>{_cell(value)}</td>" for value, kind in zip(row, kinds, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _cell(value: str | None) -> str:
    if value is None:
        return '<span class="null">null</span>'
    return escape(shortened(value, LONGEST))


def is_number(kind: pa.DataType) -> bool:
    """Whether values of this type are aligned right."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_duration(kind)
    )


# Tables of text


def aligned(
    names: Sequence[str], kinds: Sequence[pa.DataType], cells: Sequence[Sequence[str]]
) -> Iterator[str]:
    """The lines of a table, from names and cells by column; each column is as wide as its longest cell."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, [name, *column])) for name, column in zip(names, cells, strict=True)]
    right = [is_number(kind) for kind in kinds]
    for line in (names, *zip(*cells, strict=True)):
        padded = [
            " " * (width - cell_len(cell)) + cell if number else cell + " " * (width - cell_len(cell))
            for cell, width, number in zip(line, widths, right, strict=True)
        ]
        yield "  ".join(padded).rstrip()


def text_table(rows: pa.Table, zone: str, most: int) -> Iterator[str]:
    """The first rows as lines of text, and a line with the number of rows if there are more. Control characters are
    escaped."""
    shown = rows.slice(0, most)
    cells = [
        ["" if cell is None else harmless(cell) for cell in csv_column(column, zone)]
        for column in shown.columns
    ]
    yield from aligned([*map(harmless, rows.schema.names)], [field.type for field in rows.schema], cells)
    if rows.num_rows > most:
        yield f"{most:,} of {rows.num_rows:,} rows are shown"
