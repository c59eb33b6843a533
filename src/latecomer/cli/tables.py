"""`latecomer panes`, `latecomer late`, `latecomer gaps`, `latecomer watermarks`, `latecomer ledger`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    Keys,
    Limit,
    OutputName,
    Zoned,
    hush_spark,
    key_of,
    limit_option,
    moment_of,
    note,
    open_reader,
    show,
)
from latecomer.model.counting import counted
from latecomer.model.durations import to_micros
from latecomer.model.ledger import EVENTS
from latecomer.model.silent_partitions import holding_in_words
from latecomer.model.sources import partition_of
from latecomer.model.zoned import written

if TYPE_CHECKING:
    import pyarrow as pa

    from latecomer.after.reading.reader import Reader

LOG = logging.getLogger(__name__)


def panes(
    file: File,
    output: OutputName,
    window: Annotated[
        str | None,
        typer.Option(help="Only the window that holds this moment, such as 2026-04-25T14:00Z.", metavar="T"),
    ] = None,
    key: Keys = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show every number ever published and every one taken back, in order of publication."""
    reader = open_reader(file, zone, output)
    moment = None if window is None else moment_of("--window", window)
    rows = reader.panes(output, moment, key_of(key))
    nothing = "no panes yet: no window has closed"
    if window or key:
        nothing = "no pane matches; a window that is still open has none (latecomer results --open)"
    show(rows, form, nothing, limit)


def late(
    file: File, output: OutputName, form: Formatted = Format.TABLE, limit: Limit = None, zone: Zoned = None
) -> None:
    """Show the side output: events that were fine, but came too late for their window."""
    rows = open_reader(file, zone, output).late(output)
    # Most sources fill only some columns of the envelope; a table shows those.
    if form is Format.TABLE and rows.num_rows:
        rows = rows.select([name for name in rows.column_names if rows[name].null_count < rows.num_rows])
    show(rows, form, f"no event has gone to the side output of {output}", limit)


def gaps(
    file: File,
    producer: Annotated[str | None, typer.Option("--producer", help="Of this producer alone.")] = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show which numbers are missing in each producer's count of its events: those never arrived."""
    rows = open_reader(file, zone).gaps(producer)
    whose = "any producer" if producer is None else producer
    show(rows, form, f"nothing is missing between the first and the last number of {whose}", limit)


def watermarks(
    file: File,
    alignment: Annotated[
        bool,
        typer.Option(
            "--alignment", help="Which partition held the watermark back, for how long, by how much."
        ),
    ] = False,
    form: Formatted = Format.TABLE,
    limit: Annotated[
        int | None,
        limit_option("the newest N ticks in order of time; with --alignment the first N partitions"),
    ] = None,
    zone: Zoned = None,
) -> None:
    """Show the watermark in force for each tick of arrival time, and which partition held it back.

    `tick` counts the intervals of watermark.every since 1970; `at` is its moment. `settled` is empty except with
    `every: event`.
    """
    reader = open_reader(file, zone)
    if holding := reader.holding():
        LOG.warning("%s", holding_in_words(holding))
    if alignment:
        show(reader.alignment(), form, "no partition has held the watermark back", limit)
        return
    rows = reader.watermarks()
    if form is Format.TABLE:
        rows = _without_empty_names(rows)
    show(rows, form, "there is no watermark yet: nothing has arrived", limit, newest=True)


def _without_empty_names(rows: pa.Table) -> pa.Table:
    """The timeline for people: a partition without a name, as of a source that has no others, is no answer to who held
    the watermark back, just as null is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    place, names = rows.schema.get_field_index("held_by"), rows["held_by"]
    named = pc.if_else(pc.equal(names, ""), pa.scalar(None, names.type), names)
    return rows.set_column(place, rows.schema.field(place), named)


def ledger(
    file: File,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the ledger with the tables; exit 1 if they differ.")
    ] = False,
    removals: Annotated[
        bool, typer.Option("--removals", help="Show what retention has removed, table by table.")
    ] = False,
    by_batch: Annotated[bool, typer.Option("--by-batch", help="Show every line, not the totals.")] = False,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show what was received and what became of it, per output and unit."""
    from latecomer.cli.render import scales_of
    from latecomer.store.answers import SourceAnswers
    from latecomer.store.coverage import removal_totals
    from latecomer.store.store import home_of, open_store

    reader = open_reader(file, zone)
    if check:
        _check(reader)
        return
    store = open_store(reader.pipeline)
    scales = scales_of(store)
    if removals:
        removed = removal_totals(store)
        show(removed, form, "retention has removed nothing", limit, scales=scales)
        return
    rows = reader.ledger() if by_batch else reader.ledger_totals()
    empty = "the ledger is empty: nothing has been received"
    show(rows, form, empty, limit, scales=scales)
    for row in removal_totals(store).to_pylist():
        if row["unit"] == EVENTS:
            note(_removed(row))
    if skipped := reader.tombstones():
        were = "was" if skipped == 1 else "were"
        note(f"{counted(skipped, 'tombstone')} {were} skipped: not among what was received")
    for source in reader.pipeline.views:
        for gap in SourceAnswers(home_of(reader.pipeline.store_path, source)).lost():
            count, partition = gap.until - gap.since, partition_of(source, gap.partition)
            which = f"{gap.since}" if count == 1 else f"{gap.since} to {gap.until - 1}"
            note(f"lost at the source, unread: {counted(count, 'offset')} of {partition} ({which})")


def _removed(row: dict[str, Any]) -> str:
    where = f"{row['table']} of {row['output']}" if row["output"] else row["table"]
    newest = row["newest_event_time"]
    until = f", event times up to {written(to_micros(newest))}" if newest else ""
    first, last = row["first_batch"], row["last_batch"]
    batches = f"batch {first}" if first == last else f"batches {first} to {last}"
    return f"retention has removed {counted(int(row['amount']), 'row')} of {batches} from {where}{until}"


def _check(reader: Reader) -> None:
    from latecomer.engine.ledger.check import check_ledger

    hush_spark()
    totals = reader.ledger_totals().to_pylist()
    notes: list[str] = []
    differences = check_ledger(reader.pipeline, notes=notes)
    note(*notes)
    if differences:
        typer.echo("the ledger does not balance:")
        for difference in differences:
            typer.echo(f"  {difference}")
        raise typer.Exit(1)
    outputs = {row["output"] for row in totals}
    units = {row["unit"] for row in totals}
    received = max((int(row["received"]) for row in totals if row["unit"] == EVENTS), default=0)
    typer.echo(
        f"the ledger balances: {counted(reader.batches(), 'batch')}, "
        f"{counted(len(outputs), 'output')}, {counted(len(units), 'unit')}, "
        f"{counted(received, 'event')} received"
    )
