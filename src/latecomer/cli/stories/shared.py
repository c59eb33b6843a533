"""What the stories of `latecomer demo` share: files that arrive, tables and numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latecomer.model.counting import counted
from latecomer.model.ledger import difference
from latecomer.model.verdicts import Fate

if TYPE_CHECKING:
    from rich.table import Table

    from latecomer.engine.ledger.report import BatchReport

FATES = tuple(fate.value for fate in Fate)


def write_part(folder: Path, number: int, lines: Iterable[str], start: datetime) -> None:
    """Write a file of arrivals."""
    part = folder / f"{number:02d}.json"
    part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    landed = start.timestamp() + number  # one after the other, whatever the clock's resolution
    os.utime(part, (landed, landed))


def batch(report: BatchReport) -> str:
    """A batch that is done, in words."""
    return f"batch {report.batch + 1}: {counted(report.received.rows, 'row')} in {report.seconds:.1f} s"


def simple_table(title: str) -> Table:
    """A table of the demo's, with its title above."""
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def count(amount: Any) -> str:
    """A number of things; a dash for none."""
    return f"{int(amount):,}" if amount else "-"


def fates_table(title: str, lines: Mapping[str, Mapping[str, Any]], shown: Callable[[Any], str]) -> Table:
    """What became of what was received: a row for each fate, and a column for each of some lines of the ledger."""
    table = simple_table(title)
    table.add_column("", no_wrap=True)
    for name in lines:
        table.add_column(name, justify="right", no_wrap=True)
    for fate in ("received", *FATES):
        table.add_row(fate.replace("_", " "), *(shown(line[fate]) for line in lines.values()))
    table.add_row("unaccounted for", *map(_unaccounted, lines.values()))
    return table


def _unaccounted(line: Mapping[str, Any]) -> str:
    """What a line of the ledger received and gave no fate."""
    amount = difference(line["received"], (line[fate] for fate in FATES))
    return f"{amount:f}" if amount else "0"


def rupees(paise: Any) -> str:
    """Paise as rupees, grouped in thousands like the counts beside them.

    >>> rupees(3128450000_07), rupees(0)
    ('3,128,450,000.07', '-')
    """
    if not paise:
        return "-"
    whole, rest = divmod(int(paise), 100)
    return f"{whole:,}.{rest:02d}"
