"""A rebuild's plan as text and as HTML: for the command line and for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from latecomer.config.sizes import size_in_words
from latecomer.errors import LatecomerError
from latecomer.model.counting import counted
from latecomer.model.markup import MOST_ROWS, escape, fragment, heading, table, text_table, warning
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.written_values import csv_text, short_text
from latecomer.model.zoned import current_zone, in_zone, read, written
from latecomer.model.zones import is_zone
from latecomer.store.pins import read_pins

if TYPE_CHECKING:
    from latecomer.store.rebuilds import Rebuild, Record


def title(rebuild: Rebuild) -> str:
    """The plan's id, output and windows."""
    return f"plan {rebuild.id}: {rebuild.record.output}, windows that start {range_in_words(rebuild.record)}"


def range_in_words(record: Record) -> str:
    """The windows that a rebuild covers."""
    since, until = (_moment(each) for each in (record.since, record.until))
    if since is None:
        return "at any time" if until is None else f"until {until}"
    return f"from {since} on" if until is None else f"from {since} until {until}"


def _moment(micros: int) -> str | None:
    return None if micros in (BEGIN_OF_TIME, END_OF_TIME) else written(micros)


def lines(record: Record) -> Iterator[str]:
    """What it was computed from, and how much it changes."""
    counts = record.counts
    size = size_in_words(counts["bytes"])
    files, rows = counted(counts["files"], "file"), counted(counts["rows"], "row")
    yield f"by the log up to batch {record.through}: {files}, {rows}, {size}"
    if "computed" in counts:
        yield f"{counted(counts['computed'], 'window')} computed in {record.seconds:.1f} s"
    if record.definition is not None:
        yield "the output means something else from here on: windows that are open, or within their lateness, too"
    if not record.changes:
        yield "nothing changes: every closed window says what the log says"
        return
    yield (
        f"{counted(counts['windows'], 'window')} and {counted(counts['keys'], 'key')} change: "
        f"{counts['new']:,} new, {counts['changed']:,} changed, {counts['withdrawn']:,} withdrawn"
    )


def sums(record: Record) -> list[dict[str, str]]:
    """The sums of the changed rows, before and after; empty where nothing changes."""
    if not record.changes:
        return []
    return [
        {
            "of what changes": name,
            "before": _amount(before),
            "after": _amount(after),
            "difference": _difference(before, after),
        }
        for name, (before, after) in record.sums.items()
    ]


def largest(record: Record) -> Iterator[dict[str, Any]]:
    """The rows that change most."""
    for row in record.largest:
        values = {
            name: f"{_or_dash(row['before'][name])} → {_or_dash(row['after'][name])}"
            for name in row["before"]
        }
        yield {
            "window_start": written(read(row["window_start"])),
            **row["key"],
            "change": row["change"],
            **values,
        }


def state(rebuild: Rebuild) -> str:
    """The state of a plan: published, stale, or waiting."""
    if rebuild.batch is not None:
        return f"published as batch {rebuild.batch}"
    if rebuild.stale:
        return "stale: the store has gone on in its range, so it has to be planned anew"
    return "to be published by the running pipeline" if rebuild.asked else "nothing is published yet"


def as_text(rebuild: Rebuild) -> str:
    """A plan in lines of text, with times in the zone of the output's windows."""
    record = rebuild.record
    with in_zone(_zone(rebuild)):
        tables = [pa.Table.from_pylist(rows) for rows in (sums(record), list(largest(record))) if rows]
        texts = (line for each in tables for line in ("", *text_table(each, current_zone(), MOST_ROWS)))
        return "\n".join([title(rebuild), *lines(record), state(rebuild), *texts])


def as_html(rebuild: Rebuild) -> str:
    """A plan as a part of a page, with times in the zone of the output's windows."""
    with in_zone(_zone(rebuild)):
        return fragment(_parts(rebuild))


def _zone(rebuild: Rebuild) -> str:
    """The zone of the windows, as pinned in the store of the plan."""
    try:
        pinned = read_pins(rebuild.folder.parents[3]) or {}
    except LatecomerError:  # a plan can be read where its store cannot
        pinned = {}
    definition = rebuild.record.definition or pinned.get("outputs", {}).get(rebuild.record.output, {})
    zone = definition.get("window", {}).get("zone")
    return zone if isinstance(zone, str) and is_zone(zone) else "UTC"


def _parts(rebuild: Rebuild) -> Iterator[str]:
    yield from heading(title(rebuild), "; ".join(lines(rebuild.record)))
    yield warning(state(rebuild)) if rebuild.stale else f"<p>{escape(state(rebuild))}</p>"
    if changed := sums(rebuild.record):
        yield from table(list(changed[0]), [list(row.values()) for row in changed], numbers=[1, 2, 3])
    rows = list(largest(rebuild.record))
    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        yield from heading("the largest changes")
        yield from table(names, [[csv_text(row.get(name)) for name in names] for row in rows])


def _amount(amount: Any) -> str:
    return short_text(Decimal(str(amount or 0)))


def _difference(before: Any, after: Any) -> str:
    with localcontext(prec=100):
        by = Decimal(_amount(after)) - Decimal(_amount(before))
    return ("" if by < 0 else "+") + _amount(by)


def _or_dash(value: Any) -> str:
    return "-" if value is None else csv_text(value) or ""
