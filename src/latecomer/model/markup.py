"""Parts of a page for notebooks: text that is escaped, tables, a style that suits light and dark pages. No scripts.

A notebook may be dark on a light desktop. So text has the colour of the page around it, and lines are that colour made
pale; nothing depends on what the desktop prefers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape as html_escape

import pyarrow as pa

from latecomer.errors import shortened
from latecomer.model.written_values import csv_column

MOST_ROWS = 40
"""So many rows of a table are shown; all of them are in the table."""
LONGEST = 300
"""So much of a value is shown."""
_ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
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
    """Text of the user's as HTML has it; what would turn the text around it, or is no character, is written out.

    >>> escape('<b onclick="x">') == "&lt;b onclick=&quot;x&quot;&gt;"
    True
    """
    return html_escape(written_out(text))


def written_out(text: str) -> str:
    """Text in which nothing turns what stands around it, or is an order to a terminal."""
    return _ORDERS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def fragment(parts: Iterable[str]) -> str:
    """A part of a page, with its style. The parts are HTML already."""
    return "\n".join([f"<style>{STYLE}</style>", '<div class="latecomer">', *parts, "</div>"])


def heading(title: str, below: str = "") -> Iterator[str]:
    """What it is, and a line about it."""
    yield f"<h4>{escape(title)}</h4>"
    if below:
        yield f'<p class="pale">{escape(below)}</p>'


def warning(text: str) -> str:
    """Something that the reader should know."""
    return f'<p class="warning">{escape(text)}</p>'


def arrow_table(rows: pa.Table, zone: str, most: int = MOST_ROWS) -> Iterator[str]:
    """The first rows of a table, exact: every digit of a decimal, every microsecond, by the clock of a zone."""
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
    """A table of texts. Columns of `numbers` stand at the right, those of `words` may have several lines."""
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
    """Whether values of this type stand at the right."""
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
    """The lines of a table: names and cells, column by column, as wide as they need to be."""
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
    """The first rows as lines of text, and how many there are if there are more. Nothing in them is an order to a
    terminal."""
    shown = rows.slice(0, most)
    cells = [
        ["" if cell is None else _in_a_line(cell) for cell in csv_column(column, zone)]
        for column in shown.columns
    ]
    yield from aligned([*map(_in_a_line, rows.schema.names)], [field.type for field in rows.schema], cells)
    if rows.num_rows > most:
        yield f"{most:,} of {rows.num_rows:,} rows are shown"


def _in_a_line(text: str) -> str:
    return written_out(text).replace("\n", "\\n").replace("\t", "\\t")
