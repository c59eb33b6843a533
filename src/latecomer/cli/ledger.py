"""`latecomer ledger`: the proof that nothing was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from latecomer.cli.options import File, Format, Formatted, Limit, Zoned, choose_zone, hush_spark, load, note
from latecomer.model.counting import counted
from latecomer.model.durations import to_micros
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.sources import partition_of
from latecomer.model.zoned import written

if TYPE_CHECKING:
    from latecomer.after.reading.reader import Reader


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
    from latecomer.after.reading.reader import Reader
    from latecomer.cli.render import show
    from latecomer.model.types import scale_of
    from latecomer.store.answers import Answers
    from latecomer.store.coverage import removal_totals
    from latecomer.store.store import home_of, open_store

    choose_zone(zone, file)
    reader = Reader(load(file))
    if check:
        _check(reader)
        return
    store = open_store(reader.pipeline)
    # A sum has the digits of its column; what is counted is whole.
    scales = {column: scale_of(kind) for column, kind in store.columns.items()} | {EVENTS: 0, ASSIGNMENTS: 0}
    if removals:
        removed = removal_totals(store)
        show(removed, form, "retention has removed nothing", limit, short_decimals=True, scales=scales)
        return
    rows = reader.ledger() if by_batch else reader.ledger_totals()
    empty = "the ledger is empty: nothing has been received"
    show(rows, form, empty, limit, short_decimals=True, scales=scales)
    for row in removal_totals(store).to_pylist():
        if row["unit"] == EVENTS:
            note(_removed(row))
    if skipped := reader.tombstones():
        were = "was" if skipped == 1 else "were"
        note(f"{counted(skipped, 'tombstone')} {were} skipped: not among what was received")
    for source in reader.pipeline.views:
        for gap in Answers(home_of(reader.pipeline.store_path, source)).lost():
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
